from nemo_gym import errors as errors
from nemo_gym.api.comparing import RunComparisons as RunComparisons
from nemo_gym.api.comparing import compare as compare
from nemo_gym.api.eval_results import EvalResult as EvalResult
from nemo_gym.api.eval_results import EvalResults as EvalResults
from nemo_gym.api.eval_results import results as results
from nemo_gym.api.running import reverify as reverify
from nemo_gym.api.running import run as run
from nemo_gym.api.submitting import EvalSubmission as EvalSubmission
from nemo_gym.api.submitting import submit as submit
from nemo_gym.api.waiting import BenchmarkProgress as BenchmarkProgress
from nemo_gym.api.waiting import EvalProgress as EvalProgress

__all__ = [
    "BenchmarkProgress",
    "EvalProgress",
    "EvalResult",
    "EvalResults",
    "EvalSubmission",
    "RunComparisons",
    "__version__",
    "compare",
    "errors",
    "results",
    "reverify",
    "run",
    "submit",
]
__version__: str
