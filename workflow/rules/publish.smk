# From records to board and pages: cheap, pure functions with hashes of their own.


rule board:
    input:
        records=PLAN.records,
        published=PLAN.published,
        sources=PLAN.sources,
    output:
        BOARD,
    log:
        "results/logs/board.log",
    params:
        analysis=package_sha256("analysis", "records", "catalog", "archive.py"),
        harness=harness_sha256(),
    shell:
        "specatlas board > {log} 2>&1"


rule site:
    input:
        board=BOARD,
        cards=PLAN.cards,
        pages=PLAN.site_sources,
    output:
        # Snakemake removes the old page first: after a failed build it is missing, and so the next run builds again.
        # (`update` would keep it, and Snakemake would take it for the new one.)
        SITE,
    log:
        "results/logs/site.log",
    params:
        publish=package_sha256("publish", "analysis", "catalog"),
    shell:
        "specatlas site > {log} 2>&1"
