# From the hub (or the package index) to what methods load: models, the corpus, trained and searched artifacts.
# All of it is heavy, so it holds the machine like a timing job: nothing runs while a unit is timed.


rule fetch:
    output:
        PLAN.model("{model}"),
    log:
        "results/logs/fetch/{model}.log",
    threads: all_cores
    resources:
        machine=1,
    params:
        entry=lambda wildcards: PLAN.model_parameters(wildcards.model),
    shell:
        "specatlas fetch {wildcards.model} 2>&1 | tee {log}"


rule corpus:
    input:
        PLAN.model(PLAN.config.target),
    output:
        PLAN.corpus,
    log:
        f"results/logs/corpus/{PLAN.config.target}/{PLAN.config.corpus.name}.log",
    threads: all_cores
    resources:
        machine=1,
    params:
        config=PLAN.corpus_config(),
        training=training_sha256(),
    shell:
        "specatlas corpus --config {params.config:q} 2>&1 | tee {log} # {params.training}"


rule artifact:
    input:
        lambda wildcards: PLAN.artifact_inputs(wildcards.slug),
    output:
        PLAN.artifact("{slug}"),
    log:
        f"results/logs/artifact/{PLAN.config.target}/{PLAN.config.budget.name}/{{slug}}.log",
    priority: 10  # training first: a machine is quieter after it than between two timings
    threads: all_cores
    resources:
        machine=1,
    params:
        config=lambda wildcards: PLAN.artifact_config(wildcards.slug),
        card=lambda wildcards: PLAN.training_parameters(wildcards.slug),
        training=training_sha256(),
    shell:
        "specatlas train {wildcards.slug} --config {params.config:q} 2>&1 | tee {log}"
