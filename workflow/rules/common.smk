# Reads configuration and catalog once, and refuses what cannot run, in one sentence.
import os
import shutil

try:
    from specatlas.config import parse_config
    from specatlas.errors import SpecAtlasError
    from specatlas.measure.environment import machine_name
    from specatlas.measure.hashes import harness_sha256, training_sha256
    from specatlas.plan import Plan, check_plan, package_sha256
    from specatlas.project import Project
except ImportError as error:
    sys.exit(
        f"SpecAtlas is not installed beside this Snakemake ({error}): type `make setup`, then `make leaderboard`."
    )

# Whoever calls .venv/bin/snakemake without activating the environment still gets its `specatlas`.
if shutil.which("specatlas") is None:
    os.environ.update(
        PATH=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()])
    )

NEEDS_PROFILE = (
    "Timing jobs must run one at a time, so give a profile: "
    "type `snakemake --workflow-profile workflow/profiles/cpu` (or gpu, slurm)."
)
NEEDS_MACHINE = (
    "On a cluster the login node cannot know the name of the machine that measures: "
    "add `--config machine=NAME` or set `machine` in the configuration."
)

BOARD = "results/board.json"
SITE = "site/public/index.html"


def make_plan():
    """The plan of this run; a refusal ends the run with its sentence."""
    try:
        parsed = parse_config(config, "configuration")
        plan = Plan(
            Project(root=Path("."), results=Path("results")),
            parsed,
            machine_name(parsed),
        )
        check_plan(plan)
        return plan
    except SpecAtlasError as error:
        sys.exit(str(error))


def timing_is_limited():
    """Whether something keeps timing jobs apart; a mistyped profile is ignored silently, and nothing would."""
    return "machine" in workflow.global_resources


def refuse_unsafe_execution():
    """Called before the first job of a real run; plans, lints and graphs need no profile."""
    if not timing_is_limited():
        sys.exit(NEEDS_PROFILE)
    if (
        not workflow.executor_plugin.common_settings.local_exec
        and PLAN.config.machine == "auto"
    ):
        sys.exit(NEEDS_MACHINE)


def all_cores(wildcards):
    """Every core: Snakemake exports OMP_NUM_THREADS from `threads`, and nothing may run beside a timing."""
    return workflow.cores or 1


if not timing_is_limited() and not any(
    argument.startswith("-") for argument in sys.argv[1:]
):
    sys.exit(NEEDS_PROFILE)

PLAN = make_plan()


# Names a software environment for `--sdm apptainer` (and for --lint, which asks for one); without that option the
# rules run in the environment that Snakemake runs in.
container: "docker://python:3.11-bookworm"


wildcard_constraints:
    slug="[a-z][a-z0-9_]*",
    settings="[a-z0-9][a-z0-9._-]*",
    model="[A-Za-z0-9][A-Za-z0-9._-]*",
