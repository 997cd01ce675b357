"""``capset worker``: does queued runs of agents and tools, and serves nothing."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.limits import limit_of
from capset.definitions.governance.settings import Governance
from capset.errors import DefinitionError
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.registry import Registry
from capset_cli.common.allowances import LimitOption, RunBudget, SessionBudget, UsageOption, load_allowance
from capset_cli.common.configuration import ServedFile, load_configuration, make_kernel
from capset_cli.common.exits import Exit, guarded, require_extra
from capset_cli.common.models import (
    AllowedModels,
    MaxCost,
    MaxSteps,
    MaxTokens,
    ModelOption,
    SummariseAt,
    make_server_runner,
)
from capset_cli.common.options import Attribute, Db, Env, Grant, Who
from capset_cli.common.output import cell, err
from capset_cli.common.process import on_termination_signal
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.temporary_folder import own_temporary_folder
from capset_cli.common.upstream import Upstream
from capset_cli.common.vaults import user_vault
from capset_cli.serve.agent_servers import AgentHost, AgentSecret
from capset_cli.serve.limits import HttpLimit, request_limits
from capset_cli.serve.process import tune_process
from capset_cli.serve.telemetry import exported_traces
from capset_connect.agents.server_allowances import ServerAllowances

if TYPE_CHECKING:
    from capset_agents.dbos import Queue
    from capset_connect.config_file import Configuration
    from capset_server.http.request_rules import RequestLimits

_QUEUE: Final = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]{0,99})(=(?P<maximum>[1-9][0-9]{0,5})?(,(?P<rate>[^,]+))?)?")
_log = logging.getLogger("capset.runs")


@guarded
def worker_command(
    file: ServedFile = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=RUNS][,RUNS/TIME]",
            help="A queue to work on, `default` by default, with limits for all workers together: how many of its runs "
            "are done at once, and how many begin within a time, as in mail=4,10/1m. May be repeated.",
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=1000, help="The maximum number of concurrent runs per queue in this worker.")
    ] = 8,
    limit: LimitOption = None,
    session_budget: SessionBudget = None,
    run_budget: RunBudget = None,
    usage_limit: UsageOption = None,
    http_limit: HttpLimit = None,
    agent_host: AgentHost = None,
    agent_secret: AgentSecret = None,
    model: ModelOption = None,
    allow_model: AllowedModels = None,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    summarise_at: SummariseAt = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Also do the runs of servers without keys, as --principal.")
    ] = False,
    principal: Who = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    db: Db = None,
) -> Exit:
    """Do runs queued over REST (/v1/runs), alongside servers and other workers, until SIGINT or SIGTERM.

    It takes the servers' options for what an agent may do, and shares their database. When this worker ends, for
    any reason, another one continues its runs.
    """
    require_extra("server", "fastapi", "structlog", "mcp")
    require_extra("dbos", "dbos")
    settings = load_settings(db=db, principal=principal, grant=grant, attribute=attribute, env=env)
    if not insecure and (principal is not None or grant or attribute):
        raise DefinitionError(
            "--principal, --grant and --attribute are for --insecure: otherwise the key of a run says who acts"
        )
    queues = tuple(parse_queue(text, concurrency) for text in queue or ("default",))
    if len({parsed_queue.name for parsed_queue in queues}) < len(queues):
        raise DefinitionError("--queue names a queue twice: name each once, with its limits")
    installed, upstream = Registry.installed(), Upstream(settings.db)
    configuration = None if file is None else load_configuration(file, installed, upstream)
    governance = Governance() if configuration is None else configuration.governance
    limits = request_limits(http_limit or (), file=governance.file_bytes)
    budget = max_steps, max_cost, max_tokens, summarise_at
    runner = make_server_runner(model, allow_model, budget, configuration)
    allowance = load_allowance(limit, session_budget, run_budget, usage_limit)
    server_allowances = ServerAllowances(agent_host or (), agent_secret or ())
    options = _WorkerOptions(
        queues, installed, configuration, upstream, allowance, limits, runner, server_allowances, insecure
    )
    tune_process()
    with exported_traces(), own_temporary_folder():
        asyncio.run(_work(settings, options))
    return Exit.DONE


@dataclass(frozen=True, slots=True)
class _WorkerOptions:
    """The queues of a worker, and the parts of its kernel and its service."""

    queues: tuple[Queue, ...]
    installed: Registry
    configuration: Configuration | None
    upstream: Upstream
    allowance: Allowance | None
    limits: RequestLimits
    runner: GeneratorRunner | None
    server_allowances: ServerAllowances
    insecure: bool


async def _work(settings: Settings, options: _WorkerOptions) -> None:
    from capset_agents.dbos import RunEngine
    from capset_server.auth.callers import Caller
    from capset_server.observability import logs
    from capset_server.observability.log_writer import LogWriter
    from capset_server.runs.worker import Worker
    from capset_server.service import Service

    configuration, upstream = options.configuration, options.upstream
    registry = options.installed if configuration is None else configuration.within(options.installed)
    anyone = Caller(settings.principal, frozenset({"capset:admin"}), None) if options.insecure else None
    vault = user_vault(() if configuration is None else configuration.sources, is_required=True)
    kernel = make_kernel(
        settings.db, configuration, options.allowance, signs=False, generator=options.runner, vault=vault
    )
    names = [queue.name for queue in options.queues]
    log = LogWriter(sys.stderr.buffer)
    async with upstream.opened(kernel, settings.db):
        service = Service(
            kernel,
            registry,
            env=settings.env,
            anyone=anyone,
            limits=options.limits,
            agent=None if configuration is None else configuration.agent.name,
            server_allowances=options.server_allowances,
        )
        if vault is not None:
            await vault.vault.check()
        worker = Worker(service, kernel.new_id(), names)
        engine = RunEngine(settings.db, worker.id, options.queues, worker.work)
        await worker.start(engine)
        err().print(f"capset works on {cell(', '.join(names))} [dim](Ctrl-C ends it)[/]", soft_wrap=True)
        logs.configure(log)
        task = asyncio.ensure_future(worker.run(engine))
        on_termination_signal(task.cancel)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
    _log.info("the worker has stopped")
    await service.checker.close()
    await asyncio.to_thread(log.drain)


def parse_queue(text: str, worker_concurrency: int) -> Queue:
    """Return the queue that an option names, with its limits. Raises ``DefinitionError`` for a malformed one."""
    from capset_agents.dbos import Queue

    match = _QUEUE.fullmatch(text)
    if match is None:
        raise DefinitionError(
            f"--queue must be NAME, NAME=RUNS or NAME=RUNS,RUNS/TIME, such as mail=4,10/1m; got {text!r:.80}"
        )
    maximum = None if match["maximum"] is None else int(match["maximum"])
    rate = None
    if match["rate"] is not None:
        limit = limit_of(match["rate"])
        rate = (limit.requests, limit.window)
    of_worker = worker_concurrency if maximum is None else min(worker_concurrency, maximum)
    return Queue(match["name"], maximum, of_worker, rate)
