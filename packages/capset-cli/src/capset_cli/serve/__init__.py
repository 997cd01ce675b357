"""``capset serve``: the REST API and MCP over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import sys
import webbrowser
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.settings import Governance
from capset.errors import DefinitionError
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.governance.acts import Actor
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.net.addresses import is_loopback
from capset_cli.common.actors import local_actor
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
from capset_cli.common.options import Attribute, Db, Env, Grant, Redis, Who
from capset_cli.common.output import cell, err, escaped
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.sources import log_need, source_options, warn_of_sources
from capset_cli.common.temporary_folder import own_temporary_folder
from capset_cli.common.upstream import Upstream
from capset_cli.common.vaults import user_vault
from capset_cli.serve.agent_servers import AgentHost, AgentSecret
from capset_cli.serve.jwt import (
    JwtAlgorithm,
    JwtAttribute,
    JwtAudience,
    JwtIssuer,
    JwtJwks,
    JwtOrg,
    JwtOrgClaim,
    OidcClient,
    OidcScope,
    PublicUrl,
    make_issuer,
    make_open_id_client,
)
from capset_cli.serve.limits import HttpLimit, request_limits
from capset_cli.serve.process import tune_garbage_collection, tune_process
from capset_cli.serve.signatures import (
    CheckpointKeyFile,
    SigningOptions,
    Unsigned,
    begin_signing,
    log_signing,
    signing_options,
)
from capset_cli.serve.telemetry import exported_traces
from capset_connect.agents.server_allowances import ServerAllowances

if TYPE_CHECKING:
    from capset_connect.config_file import Configuration
    from capset_server.auth.callers import Identifies
    from capset_server.auth.open_id import OpenIdClient
    from capset_server.auth.tokens import Issuer
    from capset_server.http.request_rules import AllowedHosts, RequestLimits
    from capset_server.service import Service


_log = logging.getLogger("capset.server")


@guarded
def serve_command(
    file: ServedFile = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 8000,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Require no key: every caller acts as --principal. On loopback only.")
    ] = False,
    open_console: Annotated[
        bool, typer.Option("--open", help="Open the console in a browser once the server answers.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A host name by which clients may address the server; may be repeated.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="An origin from which browsers may call the server; may be repeated.")
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="The address or network of a proxy in front of the server, whose X-Forwarded-For names the client; "
            "may be repeated.",
        ),
    ] = None,
    root_path: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The path under which clients reach the server, such as /capset; by default that of --public-url. A "
            "proxy may strip it.",
        ),
    ] = None,
    drain_delay: Annotated[
        float,
        typer.Option(
            min=0,
            max=3600,
            help="Seconds to keep serving after SIGTERM, while /v1/readyz returns 503, before requests are refused.",
        ),
    ] = 0,
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
    ignore_system_texts: Annotated[
        bool,
        typer.Option(
            "--ignore-system-texts",
            help="Ignore system messages and instructions of OpenAI's clients, which are otherwise used as context.",
        ),
    ] = False,
    summarise_at: SummariseAt = None,
    checkpoint_key: CheckpointKeyFile = None,
    unsigned: Unsigned = False,
    principal: Who = None,
    grant: Grant = None,
    attribute: Attribute = None,
    env: Env = None,
    db: Db = None,
    redis: Redis = None,
    jwt_issuer: JwtIssuer = None,
    jwt_audience: JwtAudience = None,
    jwt_jwks: JwtJwks = None,
    public_url: PublicUrl = None,
    jwt_org_claim: JwtOrgClaim = None,
    jwt_org: JwtOrg = None,
    jwt_algorithm: JwtAlgorithm = None,
    jwt_attribute: JwtAttribute = None,
    oidc_client: OidcClient = None,
    oidc_scope: OidcScope = None,
) -> Exit:
    """Serve agents, sessions and calls over REST (/v1) and MCP (/mcp), and the console (/), until SIGINT or SIGTERM.

    A caller needs an API key (capset key create), or a token of the issuer that --jwt-issuer names.
    With FILE, the server also has the file's agent, actions and governance. SIGHUP reloads the file; an invalid one
    changes nothing.
    """
    require_extra("server", "fastapi", "uvicorn", "httptools", "structlog", "prometheus_client", "mcp")
    from capset_server.auth.resources import PublicAddress
    from capset_server.http.request_rules import AllowedHosts
    from capset_server.http.root_path import root_path_of

    settings = load_settings(db=db, redis=redis, principal=principal, grant=grant, attribute=attribute, env=env)
    if insecure and not is_loopback(host):
        raise DefinitionError(
            f"--insecure is for loopback only; got --host {host}",
            hint="create keys instead: capset key create NAME --principal WHO",
        )
    if not insecure and (principal is not None or grant or attribute):
        raise DefinitionError(
            "--principal, --grant and --attribute are for --insecure: otherwise the API key says who acts"
        )
    issuer = make_issuer(
        jwt_issuer,
        jwt_audience,
        jwt_jwks,
        public_url=public_url,
        org_claim=jwt_org_claim,
        org=jwt_org,
        algorithms=jwt_algorithm,
        attributes=jwt_attribute,
    )
    if insecure and issuer is not None:
        raise DefinitionError(
            "--insecure accepts no tokens: leave it out, or --jwt-issuer and the options that belong to it"
        )
    open_id = make_open_id_client(issuer, oidc_client, oidc_scope)
    public = None if not public_url else PublicAddress.of(public_url)
    allowed_hosts = AllowedHosts.of(
        host,
        (*(allow_host or ()), *((public.host,) if public else ())),
        (*(allow_origin or ()), *((public.origin,) if public else ())),
    )
    installed, upstream = Registry.installed(), Upstream(settings.db)
    configuration = None if file is None else load_configuration(file, installed, upstream)
    command_options = "" if file is None else source_options(file, db)
    if configuration is not None:
        warn_of_sources(configuration, upstream.pins, command_options)
    signing = signing_options(checkpoint_key, configuration and configuration.checkpoints, settings.db, off=unsigned)
    governance = Governance() if configuration is None else configuration.governance
    allowance = load_allowance(limit, session_budget, run_budget, usage_limit)
    limits = request_limits(http_limit or (), file=governance.file_bytes)
    budget = max_steps, max_cost, max_tokens, summarise_at
    runner = make_server_runner(model, allow_model, budget, configuration)
    url = None if public is None else public.url
    options = _ServerOptions(
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        insecure=insecure,
        open_console=open_console,
        issuer=issuer,
        open_id=open_id,
        installed=installed,
        configuration=configuration,
        upstream=upstream,
        command_options=command_options,
        drain_delay=drain_delay,
        signing=signing,
        allowance=allowance,
        limits=limits,
        runner=runner,
        public_url=url,
        server_allowances=ServerAllowances(agent_host or (), agent_secret or ()),
        proxies=parse_networks(proxy or ()),
        root_path=root_path_of(root_path, url),
        takes_system_texts=not ignore_system_texts,
    )
    tune_process()
    with exported_traces(), own_temporary_folder(), asyncio.Runner(loop_factory=_loop_factory()) as loop:
        loop.run(_serve(settings, options))
    return Exit.DONE


def parse_networks(values: Iterable[str]) -> tuple[str, ...]:
    """Return the addresses and networks of proxies. Raises ``DefinitionError`` for any other value."""
    for value in values:
        try:
            ipaddress.ip_network(value)
        except ValueError:
            raise DefinitionError(
                f"--proxy takes an address or a network, such as 10.0.0.7 or 10.0.0.0/24; got {value!r:.100}"
            ) from None
    return tuple(values)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None  # uvloop does not support Windows
    import uvloop

    return uvloop.new_event_loop


@dataclass(frozen=True, slots=True)
class _ServerOptions:
    """The validated options of a server. ``upstream`` has the connections of the configuration's MCP servers.

    ``command_options`` are those by which commands find the file and the database.
    """

    host: str
    port: int
    allowed_hosts: AllowedHosts
    insecure: bool
    open_console: bool
    issuer: Issuer | None
    open_id: OpenIdClient | None
    installed: Registry
    configuration: Configuration | None
    upstream: Upstream
    command_options: str
    drain_delay: float
    signing: SigningOptions
    allowance: Allowance | None
    limits: RequestLimits
    runner: GeneratorRunner | None
    public_url: str | None
    server_allowances: ServerAllowances
    proxies: tuple[str, ...]
    root_path: str | None
    takes_system_texts: bool

    @property
    def registry(self) -> Registry:
        return self.installed if self.configuration is None else self.configuration.within(self.installed)

    def reloading(self, service: Service, actor: Actor) -> AbstractContextManager[None]:
        """Return a context manager that listens for SIGHUP, if there is a configuration to reload."""
        if self.configuration is None:
            return contextlib.nullcontext()
        from capset_cli.serve.reload import Reload

        return Reload(service, self.installed, self.configuration, self.upstream, actor).listening()


async def _serve(settings: Settings, options: _ServerOptions) -> None:
    from capset_server.app import open_app
    from capset_server.auth.callers import Caller
    from capset_server.auth.open_id import OpenIdSignIn
    from capset_server.http.uvicorn_server import bind, serve
    from capset_server.observability import logs
    from capset_server.observability.log_writer import LogWriter
    from capset_server.service import Service

    registry = options.registry
    anyone = Caller(settings.principal, frozenset({"capset:admin"}), None) if options.insecure else None
    make_tokens = None if options.issuer is None else _authenticator_factory(options.issuer)
    with bind(options.host, options.port) as bound:  # first, so that a taken port creates no database
        address = f"http://{options.allowed_hosts.written}:{bound.getsockname()[1]}"

        def started() -> None:
            message = f"capset serves {escaped(address)} [dim](console /, REST /v1, MCP /mcp; Ctrl-C ends it)[/]"
            # One line: all further lines are the log's.
            err().print(f"{message}{_access_note(settings, options, has_keys=has_keys)}", soft_wrap=True)
            log_signing(kernel.signing, place)
            if options.open_console:
                # In a thread: a browser in the terminal returns only when it is closed.
                Thread(target=webbrowser.open, args=[options.public_url or address], daemon=True).start()

        actor, configuration = local_actor(settings.principal, "serve"), options.configuration
        vault = user_vault(() if configuration is None else configuration.sources, is_required=True)
        kernel = make_kernel(
            settings.db,
            configuration,
            options.allowance,
            signs=False,
            generator=options.runner,
            redis=settings.redis,
            vault=vault,
        )
        log = LogWriter(sys.stderr.buffer)
        logs.configure(log)  # before the store is opened, which may log something
        async with options.upstream.opened(kernel, settings.db):
            place = await begin_signing(kernel, settings.db, options.signing, by=actor)
            has_keys = await kernel.store.keys.any()
            tokens = None if make_tokens is None else make_tokens(kernel)
            sources = None
            if configuration is not None:
                sources = options.upstream.declared_sources(kernel, configuration, options.command_options)
            service = Service(
                kernel,
                registry,
                env=settings.env,
                anyone=anyone,
                limits=options.limits,
                tokens=tokens,
                agent=configuration and configuration.agent.name,
                public_url=options.public_url,
                server_allowances=options.server_allowances,
                open_id=None if options.open_id is None else OpenIdSignIn(options.open_id, kernel),
                root_path=options.root_path,
                takes_system_texts=options.takes_system_texts,
                sources=sources,
                connections=None if vault is None else vault.connections(kernel),
            )
            if vault is not None:
                await vault.vault.check()
            async with open_app(service, options.allowed_hosts, log=log) as app:
                tune_garbage_collection()
                if sources is not None:
                    options.upstream.watch(sources, partial(log_need, options.command_options))
                with options.reloading(service, actor):
                    await serve(
                        app,
                        bound,
                        service.limits,
                        started=started,
                        draining=service.drain,
                        delay=options.drain_delay,
                        ending=service.turns.bell.close,
                        proxies=options.proxies,
                    )
        _log.info("the server has stopped")


def _authenticator_factory(issuer: Issuer) -> Callable[[Kernel], Identifies]:
    """Return a factory of the authenticator of an issuer's tokens. Raises ``DefinitionError`` for unusable keys."""
    from capset_server.auth.jwks import Jwks
    from capset_server.auth.tokens import Tokens

    jwks = Jwks(issuer.jwks)
    return lambda kernel: Tokens(kernel, issuer, jwks=jwks)


def _access_note(settings: Settings, options: _ServerOptions, *, has_keys: bool) -> str:
    """Return a note about who may call the server, if that could be unexpected."""
    if options.insecure:
        granted = " ".join(sorted(settings.principal.permissions)) or "no permissions"
        return f" [yellow]without keys:[/] everybody is {cell(settings.principal.id)}, with {cell(granted)}"
    if options.issuer is not None:
        return f" [dim]accepting tokens of {cell(options.issuer.issuer)}[/]"
    return "" if has_keys else " [yellow]no keys yet:[/] capset key create NAME --principal WHO makes one"
