//! The host names by which requests may address the server.
//!
//! With DNS rebinding, a web page can point its own host name to this machine and send requests to
//! it. Such requests carry that name and are refused.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header;

use crate::options::ServerOptions;

/// The host names by which requests may address the server. If empty, all names are allowed.
#[derive(Debug)]
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub(crate) fn of(options: &ServerOptions) -> Self {
        let mut names = options.allowed_hosts.clone();
        let ip = options.listen.ip();
        if ip.is_loopback() {
            let own_name = match ip {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            };
            names.extend([own_name, "localhost".into(), "127.0.0.1".into(), "[::1]".into()]);
        }
        Self(names)
    }

    /// Checks that a request is addressed to this server. The error is the host of the request.
    pub(crate) fn check(&self, request: &Request) -> Result<(), String> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let absolute = request.uri().authority().map(axum::http::uri::Authority::as_str);
        for host in [host].into_iter().chain(absolute) {
            if !self.allows(host) {
                return Err(host.to_owned());
            }
        }
        if hosts.next().is_some() {
            return Err(format!("{host}, …"));
        }
        Ok(())
    }

    fn allows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use axum::body::Body;

    use super::*;

    fn is_allowed(hosts: &[&str], uri: &str) -> bool {
        let options = ServerOptions {
            allowed_hosts: vec!["proxy.example".to_owned()],
            ..ServerOptions::new(PathBuf::new())
        };
        let mut request = axum::http::Request::builder().uri(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        AllowedHosts::of(&options).check(&request.body(Body::empty()).unwrap()).is_ok()
    }

    #[test]
    fn names_and_ports() {
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]", "[::1]:80", "proxy.example"]
        {
            assert!(is_allowed(&[host], "/"), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "evil.example:127.0.0.1",
            "localhost:evil",
            "localhost:80@evil.example",
            "::1",
        ] {
            assert!(!is_allowed(&[host], "/"), "{host}");
        }
    }

    #[test]
    fn every_name_in_a_request_counts() {
        assert!(is_allowed(&["localhost"], "http://localhost:80/"));
        assert!(!is_allowed(&["localhost"], "http://evil.example/"));
        assert!(!is_allowed(&["localhost", "evil.example"], "/"));
        assert!(!is_allowed(&["localhost", "localhost"], "/"));
        assert!(!is_allowed(&[], "/"));
    }
}
