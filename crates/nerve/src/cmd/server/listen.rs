//! Listeners of a server: converts command line options to its configuration and to arguments of the background process.

use std::ffi::OsString;
use std::net::SocketAddr;

use anyhow::Result;
use nerve_server::access::address;
use nerve_server::access::tls::TlsFiles;
use nerve_server::access::token::TokenFile;
use nerve_server::config::ServerConfig;
use nerve_server::daemon::Addresses;
use nerve_server::paths::ServerPaths;

use super::machines;
use crate::exit::{FAILED, Failure, USAGE};
use crate::out;
use nerve_cli::listen::{self, AccessArgs, ListenArgs};

/// Returns the server configuration.
///
/// # Errors
/// Exit code 2 if an address is invalid or requires TLS.
pub(crate) fn config(name: String, paths: ServerPaths, args: &ListenArgs) -> Result<ServerConfig> {
    let mut config = ServerConfig::new(name, paths);
    config.tcp = tcp(args)?;
    config.http = args.http;
    config.machines = args.machines.then(machines);
    set_access(&mut config, &args.access);
    for address in config.tcp.iter().chain(&config.http) {
        address::check(*address, config.tls.is_some(), config.insecure)?;
    }
    Ok(config)
}

/// Sets the access to the listeners.
pub(crate) fn set_access(config: &mut ServerConfig, args: &AccessArgs) {
    config.http_names.clone_from(&args.http_name);
    config.tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(cert, key)| TlsFiles { cert, key });
    config.insecure = args.insecure;
    if let Some(file) = &args.token_file {
        config.token = TokenFile::new(file);
    }
}

/// Warns about deprecated and insecure options.
pub(crate) fn warn(config: &ServerConfig, args: &ListenArgs) {
    if let Some(address) = config.tcp.filter(|_| args.port.is_some()) {
        out::warning(format_args!("'--host' and '--port' are now '--tcp {address}'"));
    }
    for address in config.tcp.iter().chain(&config.http) {
        if address::check(*address, config.tls.is_some(), false).is_err() {
            out::warning(format_args!(
                "connections to {address} are not encrypted: token, prompts and answers are exposed"
            ));
        }
    }
}

/// Checks that a running server listens as configured. A listener that is not configured may have any address, or be missing.
///
/// # Errors
/// Names the first difference.
pub(crate) fn check_running(config: &ServerConfig, running: &Addresses) -> Result<()> {
    let mismatch = |configured: Option<SocketAddr>, actual: Option<SocketAddr>| {
        let fits = |configured: SocketAddr, actual: SocketAddr| {
            configured.ip() == actual.ip() && [0, actual.port()].contains(&configured.port())
        };
        configured.filter(|configured| !actual.is_some_and(|actual| fits(*configured, actual)))
    };
    let missing = if let Some(address) = mismatch(config.tcp, running.tcp) {
        format!("--tcp {address}")
    } else if let Some(address) = mismatch(config.http, running.http) {
        format!("--http {address}")
    } else if config.tls.is_some() && !running.tls {
        "TLS".to_string()
    } else if config.machines.is_some() && !running.machines {
        "--machines".to_string()
    } else {
        return Ok(());
    };
    let name = &config.name;
    Err(Failure::new(FAILED, format!("server '{name}' is already running, without {missing}"))
        .hint(format!("stop it first with 'nerve server stop {name} --keep-nodes'; its nodes keep running"))
        .into())
}

/// Returns the arguments for the background process. They contain no secrets, because other users can see them.
pub(crate) fn daemon_args(config: &ServerConfig) -> Vec<OsString> {
    let address = |option: &str, address: Option<SocketAddr>| {
        address.map(|address| [OsString::from(option), address.to_string().into()])
    };
    let mut args: Vec<OsString> = address("--tcp", config.tcp).into_iter().flatten().collect();
    args.extend(address("--http", config.http).into_iter().flatten());
    if args.is_empty() {
        return args;
    }
    args.extend(config.http_names.iter().flat_map(|name| ["--http-name".into(), name.into()]));
    if let Some(TlsFiles { cert, key }) = &config.tls {
        args.extend(["--tls-cert".into(), cert.into(), "--tls-key".into(), key.into()]);
    }
    args.extend(["--token-file".into(), config.token.path().into()]);
    args.extend(config.insecure.then(|| "--insecure".into()));
    args.extend(config.machines.is_some().then(|| "--machines".into()));
    args
}

fn tcp(args: &ListenArgs) -> Result<Option<SocketAddr>> {
    let Some(port) = args.port else { return Ok(args.tcp) };
    let host = args.host.as_deref().unwrap_or_default();
    let text = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let address =
        listen::address(&text).map_err(|error| Failure::new(USAGE, format!("--host {host}: {error}")))?;
    Ok(Some(address))
}
