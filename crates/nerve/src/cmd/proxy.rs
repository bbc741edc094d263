//! `nerve proxy`: runs a proxy in the foreground.

use anyhow::Result;
use nerve_node::telemetry::record_call;
use nerve_proxy::{
    Budget, CallObserver, LogConfig, Prices, Proxy, ProxyConfig, ProxyError, RootCerts, Secret, Totals,
    Upstream, create_anthropic_proxy, create_openai_proxy,
};
use nerve_telemetry::TraceExport;
use serde_json::json;

use crate::exit::{FAILED, Failure, USAGE};
use crate::out;
use nerve_cli::proxy::{ProxyArgs, ProxyCommand, Settings};

/// Runs a proxy until the process is stopped.
pub(crate) async fn run(args: ProxyArgs) -> Result<()> {
    // Listens before the start, so that a signal during the start stops the proxy too.
    let stop = nerve_server::stop_signal();
    let as_json = args.prints_json();
    let trace_export = TraceExport::from_env("proxy", None, |problem| out::warning(problem));
    let on_call = Some(CallObserver::new(|report| record_call(report, None, None)));
    let started = match args.command {
        ProxyCommand::Anthropic(settings) => {
            let config = config(settings, Upstream::ANTHROPIC)?;
            create_anthropic_proxy(ProxyConfig { on_call, ..config }).await
        }
        ProxyCommand::Openai(args) => {
            let config = config(args.settings, Upstream::OPENAI)?;
            let config =
                ProxyConfig { max_output: args.max_output, reasoning: args.reasoning, on_call, ..config };
            create_openai_proxy(config).await
        }
    };
    let proxy = started.map_err(failure)?;
    announce(&proxy, as_json)?;
    stop.await;
    let totals = proxy.shutdown().await;
    trace_export.finish().await;
    print_summary(totals, as_json)
}

fn config(settings: Settings, default_upstream: &str) -> Result<ProxyConfig> {
    let upstream =
        Upstream::parse(settings.upstream.as_deref().unwrap_or(default_upstream)).map_err(failure)?;
    let log = settings.log.map(|path| LogConfig { bodies: settings.log_bodies, ..LogConfig::new(path) });
    let prices = settings.price.map(|(input, output)| Prices::new(input, output));
    Ok(ProxyConfig {
        listen: settings.listen,
        root_certs: settings.upstream_ca.map(RootCerts::read).transpose().map_err(failure)?,
        model: settings.model,
        api_key: settings.api_key_env.as_deref().map(secret).transpose()?,
        client_token: settings.client_token_env.as_deref().map(secret).transpose()?,
        log,
        budget: Budget {
            max_tokens: settings.max_tokens,
            max_requests: settings.max_requests,
            max_cost_usd: settings.max_cost,
        },
        prices,
        ..ProxyConfig::new(upstream)
    })
}

/// Reads a key from an environment variable. Errors contain only the variable's name.
fn secret(name: &str) -> Result<Secret> {
    let secret = std::env::var(name).ok().map(|text| Secret::new(&text)).filter(|secret| !secret.is_empty());
    secret.ok_or_else(|| {
        // The user may have passed the key itself.
        let shown = if name.len() > 64 { "(too long for a name)" } else { name };
        Failure::new(USAGE, format!("variable '{shown}' is empty or not set"))
            .hint("export the variable, or give another")
            .into()
    })
}

fn failure(error: ProxyError) -> Failure {
    let code = match error {
        ProxyError::Listen { .. } | ProxyError::Log { .. } | ProxyError::RootCerts { .. } => FAILED,
        _ => USAGE,
    };
    Failure::new(code, error.to_string())
}

fn announce(proxy: &Proxy, as_json: bool) -> Result<()> {
    if as_json {
        return out::json_line(&json!({ "url": proxy.url(), "address": proxy.address().to_string() }));
    }
    out::line(format_args!("ANTHROPIC_BASE_URL={}", proxy.url()))
}

fn print_summary(totals: Totals, as_json: bool) -> Result<()> {
    let usage = totals.usage;
    if as_json {
        return out::json_line(&json!({
            "requests": totals.requests,
            "refused": totals.refused,
            "tokens": usage,
            "cost_usd": totals.cost_usd,
        }));
    }
    let cost = if totals.cost_usd > 0.0 { format!(", ${:.4}", totals.cost_usd) } else { String::new() };
    let refused = if totals.refused > 0 { format!(", {} refused", totals.refused) } else { String::new() };
    let input = usage.whole_input();
    out::note(format_args!(
        "{} requests{refused}, {input} tokens in, {} out{cost}",
        totals.requests, usage.output
    ));
    Ok(())
}
