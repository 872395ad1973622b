# One job a unit, one record a job. A method that fails or is refused is a record with a reason, and the job succeeds;
# only a broken machine fails it.


rule measure:
    input:
        unpack(lambda wildcards: PLAN.record_inputs(wildcards.slug)),
    output:
        ensure(PLAN.record("{settings}", "{slug}"), non_empty=True),
    log:
        f"results/logs/measure/{PLAN.machine}/{PLAN.config.target}/{PLAN.config.prompts.name}/{{settings}}/{{slug}}.log",
    threads: all_cores
    resources:
        machine=1,
    params:
        config=lambda wildcards: PLAN.record_config(wildcards.settings, wildcards.slug),
        # Hash of the measuring modules only, so that a change to pages costs no measuring.
        harness=harness_sha256(),
    shell:
        "specatlas measure {wildcards.slug} --settings {wildcards.settings} --config {params.config:q} 2>&1 | tee {log}"
