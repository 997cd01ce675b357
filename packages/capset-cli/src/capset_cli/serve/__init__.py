"""``capset serve``: the REST API and MCP over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import sys
import webbrowser
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.settings import Governance
from capset.errors import DefinitionError
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.governance.acts import Actor
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.net.addresses import is_loopback
from capset_agents.budgets import SUMMARISE_AT
from capset_cli.common.actors import actor_here
from capset_cli.common.allowances import LimitOption, RunBudget, SessionBudget, UsageOption, load_allowance
from capset_cli.common.configuration import ConfigFile, load_configuration, make_kernel
from capset_cli.common.exits import Exit, guarded, needs_extra
from capset_cli.common.models import AllowedModels, MaxCost, MaxSteps, MaxTokens, ModelOption, SummariseAt, make_runner
from capset_cli.common.options import Attribute, Db, Env, Grant, Redis, Who
from capset_cli.common.output import cell, err, verbatim
from capset_cli.common.scratch import own_temporary_folder
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.sources import warn_of_sources
from capset_cli.common.upstream import Upstream
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
    issuer_of,
    open_id_client_of,
)
from capset_cli.serve.limits import HttpLimit, request_limits
from capset_cli.serve.process import prepare, settle
from capset_cli.serve.signatures import (
    CheckpointKeyFile,
    SigningOptions,
    Unsigned,
    begin_signing,
    log_signing,
    signing_options,
)
from capset_connect.agent_files.server_allowances import ServerAllowances

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from capset_connect.config_file import Configuration
    from capset_connect.declared_sources import DeclaredSources
    from capset_server.auth.callers import Identifies
    from capset_server.auth.open_id import OpenIdClient
    from capset_server.auth.tokens import Issuer
    from capset_server.http.request_rules import AllowedHosts, RequestLimits
    from capset_server.service import Service


_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_log = logging.getLogger("capset.server")


@guarded
def serve_command(
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
    max_steps: MaxSteps = 50,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    ignore_system_texts: Annotated[
        bool,
        typer.Option(
            "--ignore-system-texts",
            help="Ignore system messages and instructions of OpenAI's clients, which are otherwise used as context.",
        ),
    ] = False,
    summarise_at: SummariseAt = SUMMARISE_AT,
    checkpoint_key: CheckpointKeyFile = None,
    unsigned: Unsigned = False,
    config: ConfigFile = None,
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
    With --config, the file's actions are served as one agent, named in the file or after it. SIGHUP reloads the file;
    an invalid one changes nothing.
    """
    needs_extra("server", "fastapi", "uvicorn", "httptools", "structlog", "prometheus_client", "mcp")
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
    issuer = issuer_of(
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
    open_id = open_id_client_of(issuer, oidc_client, oidc_scope)
    public = None if not public_url else PublicAddress.of(public_url)
    names = AllowedHosts.of(
        host,
        (*(allow_host or ()), *((public.host,) if public else ())),
        (*(allow_origin or ()), *((public.origin,) if public else ())),
    )
    installed, upstream = Registry.installed(), Upstream(settings.db)
    configuration = None if config is None else load_configuration(config, installed, upstream)
    if configuration is not None:
        warn_of_sources(configuration, upstream.pins, db)
    signing = signing_options(checkpoint_key, configuration and configuration.checkpoints, settings.db, off=unsigned)
    governance = Governance() if configuration is None else configuration.governance
    allowance = load_allowance(limit, session_budget, run_budget, usage_limit)
    limits = request_limits(http_limit or (), file=governance.file_bytes)
    runner = None
    if model is not None or allow_model:
        runner = make_runner(model, allow_model or (), max_steps, max_cost, max_tokens, summarise_at)
    url = None if public is None else public.url
    servers = ServerAllowances(agent_host or (), agent_secret or ())
    served = _Served(
        installed,
        configuration,
        upstream,
        drain_delay,
        signing,
        allowance,
        limits,
        runner,
        url,
        servers,
        parse_networks(proxy or ()),
        root_path_of(root_path, url),
        not ignore_system_texts,
    )
    prepare()
    with telemetry(), own_temporary_folder(), asyncio.Runner(loop_factory=_loop_factory()) as loop:
        loop.run(_serve(settings, host, port, names, served, issuer, open_id, insecure=insecure, opens=open_console))
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
class _Served:
    """The installed registry, the configuration served with it, if any, the allowance, the limits, and the runner.

    ``upstream`` has the connections of the configuration's MCP servers.
    """

    installed: Registry
    configuration: Configuration | None
    upstream: Upstream
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

    def sources(self, kernel: Kernel) -> DeclaredSources | None:
        """Return the MCP servers and APIs of the configuration, if there is one."""
        if self.configuration is None:
            return None
        from capset_connect.declared_sources import DeclaredSources

        upstream = self.upstream
        return DeclaredSources(kernel, self.configuration.sources, upstream.connection, is_shared=upstream.is_shared)

    def reloading(self, service: Service, actor: Actor) -> AbstractContextManager[None]:
        """Return a context manager that listens for SIGHUP, if there is a configuration to reload."""
        if self.configuration is None:
            return contextlib.nullcontext()
        from capset_cli.serve.reload import Reload

        return Reload(service, self.installed, self.configuration, self.upstream, actor).listening()


async def _serve(
    settings: Settings,
    host: str,
    port: int,
    names: AllowedHosts,
    served: _Served,
    issuer: Issuer | None,
    open_id: OpenIdClient | None,
    *,
    insecure: bool,
    opens: bool,
) -> None:
    from capset_server.app import open_app
    from capset_server.auth.callers import Caller
    from capset_server.auth.open_id import OpenIdSignIn
    from capset_server.http.uvicorn_server import bind, serve
    from capset_server.observability import logs
    from capset_server.observability.log_writer import LogWriter
    from capset_server.service import Service

    registry = served.registry
    anyone = Caller(settings.principal, frozenset({"capset:admin"}), None) if insecure else None
    make_tokens = None if issuer is None else _tokens_of(issuer)
    with bind(host, port) as bound:  # first, so that a taken port creates no database
        address = f"http://{names.written}:{bound.getsockname()[1]}"

        def started() -> None:
            message = f"capset serves {verbatim(address)} [dim](console /, REST /v1, MCP /mcp; Ctrl-C ends it)[/]"
            # One line: all further lines are the log's.
            err().print(f"{message}{_who(settings, issuer, insecure=insecure, has_keys=has_keys)}", soft_wrap=True)
            log_signing(kernel.signing, place)
            if opens:
                # In a thread: a browser in the terminal returns only when it is closed.
                Thread(target=webbrowser.open, args=[served.public_url or address], daemon=True).start()

        actor = actor_here(settings.principal, "serve")
        kernel = make_kernel(
            settings.db,
            served.configuration,
            served.allowance,
            signs=False,
            generator=served.runner,
            redis=settings.redis,
        )
        log = LogWriter(sys.stderr.buffer)
        logs.configure(log)  # before the store is opened, which may log something
        async with served.upstream.opened(kernel, settings.db):
            place = await begin_signing(kernel, settings.db, served.signing, by=actor)
            has_keys = await kernel.store.keys.any()
            tokens = None if make_tokens is None else make_tokens(kernel)
            service = Service(
                kernel,
                registry,
                env=settings.env,
                anyone=anyone,
                limits=served.limits,
                tokens=tokens,
                agent=served.configuration and served.configuration.agent.name,
                public_url=served.public_url,
                server_allowances=served.server_allowances,
                open_id=None if open_id is None else OpenIdSignIn(open_id, kernel),
                root_path=served.root_path,
                takes_system_texts=served.takes_system_texts,
                sources=served.sources(kernel),
            )
            async with open_app(service, names, log=log) as app:
                settle()
                served.upstream.start_servers()
                with served.reloading(service, actor):
                    delay = served.drain_delay
                    ending = service.turns.bell.close
                    await serve(
                        app,
                        bound,
                        service.limits,
                        started=started,
                        draining=service.drain,
                        delay=delay,
                        ending=ending,
                        proxies=served.proxies,
                    )
        _log.info("the server has stopped")


def _tokens_of(issuer: Issuer) -> Callable[[Kernel], Identifies]:
    """Return a factory of the authenticator of an issuer's tokens. Raises ``DefinitionError`` for unusable keys."""
    from capset_server.auth.jwks import Jwks
    from capset_server.auth.tokens import Tokens

    jwks = Jwks(issuer.jwks)
    return lambda kernel: Tokens(kernel, issuer, jwks=jwks)


def _who(settings: Settings, issuer: Issuer | None, *, insecure: bool, has_keys: bool) -> str:
    """Return a note about who may call the server, if that could be unexpected."""
    if insecure:
        granted = " ".join(sorted(settings.principal.permissions)) or "no permissions"
        return f" [yellow]without keys:[/] everybody is {cell(settings.principal.id)}, with {cell(granted)}"
    if issuer is not None:
        return f" [dim]accepting tokens of {cell(issuer.issuer)}[/]"
    return "" if has_keys else " [yellow]no keys yet:[/] capset key create NAME --principal WHO makes one"


@contextmanager
def telemetry() -> Generator[None]:
    """Set up the OpenTelemetry SDK if requested, and flush the remaining spans at the end.

    The SDK reads its own variables: service name, resource, sampler, batches, endpoint, headers. Raises
    ``DefinitionError`` for an unknown exporter or protocol, and if the extra ``otel`` is missing.
    """
    names = exporters_of(os.environ)
    if not names:
        yield
        return
    needs_extra("otel", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    attributes = {} if is_named else {"service.name": "capset", "service.version": version("capset")}
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()


def exporters_of(environ: Mapping[str, str]) -> list[str]:
    """Return the requested exporters, ``otlp`` and ``console``; an endpoint alone implies ``otlp``.

    Raises ``DefinitionError`` for others, and for a protocol other than ``http/protobuf``.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    has_endpoint = any(environ.get(name) for name in _ENDPOINTS)
    exporters = environ.get(_EXPORTER, "").strip() or ("otlp" if has_endpoint else "none")
    names = [name for name in dict.fromkeys(part.strip().lower() for part in exporters.split(",")) if name != "none"]
    for name in names:
        if name not in ("otlp", "console"):
            raise DefinitionError(f"{_EXPORTER} must be otlp, console or none; got {name!r:.80}")
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if "otlp" in names and protocol != _PROTOCOL:
        raise DefinitionError(
            f"traces are sent as {_PROTOCOL}; got {protocol!r:.80}",
            hint=f"set {_PROTOCOLS[0]}={_PROTOCOL}, and the collector's HTTP endpoint, usually on port 4318",
        )
    return names


def _exporter(name: str) -> SpanExporter:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
