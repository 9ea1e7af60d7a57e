"""Modules that a command imports only when something is asked of them."""

import subprocess
import sys
import textwrap


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_nothing_is_loaded_until_it_is_used() -> None:
    assert run("""
        import sys
        from luce.cli.options import postpone
        postpone("scipy.stats", "pandas")
        import sklearn.base
        print("scipy.stats._stats_py" in sys.modules, "pandas.core" in sys.modules)
        import scipy
        print(scipy.stats.norm.cdf(0.0), "scipy.stats._stats_py" in sys.modules)
    """).split("\n") == ["False False", "0.5 True"]


def test_every_way_to_import_gives_the_module() -> None:
    for line in (
        "import pandas; held = pandas",
        "from pandas import DataFrame; import pandas as held",
        "import pandas.api.types; import pandas as held",
        "import pandas as held; from importlib import import_module; import_module('pandas.core')",
    ):
        assert run(f"""
            import sys
            from luce.cli.options import postpone
            postpone("pandas")
            {line}
            frame = held.DataFrame({{"a": [1, 2]}})
            import pandas
            print(isinstance(frame, pandas.DataFrame), pandas.DataFrame is held.DataFrame, type(pandas).__name__)
        """).startswith("True True"), line


def test_the_package_has_the_module_itself_afterwards() -> None:
    assert (
        run("""
        import sys
        from luce.cli.options import postpone
        postpone("scipy.stats")
        from scipy.stats import norm
        import scipy
        print(type(scipy.stats).__name__, type(sys.modules["scipy.stats"]).__name__, scipy.stats.norm is norm)
    """)
        == "module module True"
    )


def test_what_is_there_or_missing_is_left_alone() -> None:
    assert (
        run("""
        import sys, json
        from luce.cli.options import postpone
        before = sys.modules["json"]
        postpone("json", "no_such_module_anywhere")
        print(sys.modules["json"] is before, "no_such_module_anywhere" in sys.modules)
    """)
        == "True False"
    )


def test_a_name_that_the_module_lacks_is_missed() -> None:
    assert (
        run("""
        from luce.cli.options import postpone
        postpone("pandas")
        import pandas
        print(hasattr(pandas, "no_such_name"), hasattr(pandas, "Series"))
    """)
        == "False True"
    )
