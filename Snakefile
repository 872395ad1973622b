# The whole leaderboard: fetch the target, make corpus and artifacts, measure every unit, draw board and site.
#
#   snakemake --workflow-profile workflow/profiles/cpu          (or gpu, slurm)
#   snakemake --workflow-profile workflow/profiles/cpu --configfile workflow/config/full.yaml
#
# A configuration file without a `name` is laid over default.yaml; one with a name stands alone.
import sys

from snakemake.utils import min_version, validate

min_version("9.20")

if "name" not in config:

    configfile: "workflow/config/default.yaml"


include: "workflow/rules/common.smk"


validate(config, "workflow/schemas/config.schema.json")


include: "workflow/rules/artifacts.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/publish.smk"


onstart:
    refuse_unsafe_execution()


# Every record is listed: if a job loses one, the next run sees that it is missing.
rule all:
    default_target: True
    input:
        PLAN.records,
        BOARD,
        SITE,
