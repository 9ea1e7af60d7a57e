"""The pages for people: OpenAPI shown by Swagger UI from files on this machine, so that no browser asks another one."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.staticfiles import StaticFiles
from swagger_ui_bundle import swagger_ui_path


def add_pages(app: FastAPI) -> None:
    """`/docs`, and `/` that leads there."""
    app.mount("/assets", StaticFiles(directory=swagger_ui_path), name="assets")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="luce",
            swagger_js_url="/assets/swagger-ui-bundle.js",
            swagger_css_url="/assets/swagger-ui.css",
            swagger_favicon_url="/assets/favicon-32x32.png",
        )

    @app.get("/", include_in_schema=False)
    async def start() -> RedirectResponse:
        return RedirectResponse("/docs")
