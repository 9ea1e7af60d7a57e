__version__: str

from . import (
    aggregate as aggregate,
)
from . import (
    clicks as clicks,
)
from . import (
    data as data,
)
from . import (
    errors as errors,
)
from . import (
    export as export,
)
from . import (
    integrations as integrations,
)
from . import (
    losses as losses,
)
from . import (
    metrics as metrics,
)
from . import (
    objectives as objectives,
)
from . import (
    scorers as scorers,
)
from . import (
    testing as testing,
)
from . import (
    track as track,
)
from . import (
    training as training,
)
from .blending import blend as blend
from .cross_fitting import cross_fit as cross_fit
from .data.clicks import comparisons_from_clicks as comparisons_from_clicks
from .data.comparisons import Comparisons as Comparisons
from .data.groups import Groups as Groups
from .data.groups import from_arrays as from_arrays
from .data.named_rows import read_comparisons as read_comparisons
from .data.named_rows import with_relations as with_relations
from .data.named_rows import with_subtopics as with_subtopics
from .data.order_files import read_orders as read_orders
from .data.readers.detect import read as read
from .data.readers.letor import read_letor as read_letor
from .data.readers.tables import from_frame as from_frame
from .data.readers.tables import read_csv as read_csv
from .data.readers.tables import read_parquet as read_parquet
from .data.text.transformer import Text as Text
from .data.trec import read_qrels as read_qrels
from .data.trec import read_run as read_run
from .data.trec import write_qrels as write_qrels
from .data.trec import write_run as write_run
from .data.writers import write_letor as write_letor
from .data.writers import write_parquet as write_parquet
from .experiments.models import compare as compare
from .metrics.evaluate import Evaluation as Evaluation
from .metrics.evaluate import evaluate as evaluate
from .model_file import load as load
from .numerics.threads import set_threads as set_threads
from .ranker import Ranker as Ranker
from .systems import model as model
from .systems import model_names as model_names
