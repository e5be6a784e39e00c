//! Accepts connections, ends slow ones, and drains them at the end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::ServeError;
use crate::api::{ROOM, Shared, WRITES, router};
use crate::queue::Queue;
use crate::state::State;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest that the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// The longest that a client may leave an answer unread, in milliseconds.
const UNREAD: u32 = 30_000;
/// The longest head of a request, in bytes.
const MOST_HEAD: usize = 32 << 10;

/// Answers until the process is told to end.
pub(crate) async fn run(
    state: Arc<State>,
    queue: Queue,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let wanted = state.options.listen;
    let failed = |source| ServeError::Listen { address: wanted, source };
    let listener = TcpListener::bind(wanted).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Start)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Start)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(ServeError::Start)?;
    let ending = Arc::new(AtomicBool::new(false));
    let mut hosts = state.options.hosts.clone();
    if wanted.ip().is_loopback() {
        let own = match wanted.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        hosts.extend([own, "localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()]);
    }
    let shared = Shared {
        state: Arc::clone(&state),
        queue,
        ending: Arc::clone(&ending),
        room: Arc::new(Semaphore::new(ROOM)),
        writes: Arc::new(Semaphore::new(WRITES)),
        hosts: hosts.into(),
    };
    let service = TowerToHyperService::new(router(&shared));
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(state.options.connections.max(1)));
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    on_ready(address);
    loop {
        let accepted = async {
            // A connection beyond the limit waits in the system's queue.
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            (accepted, place) = accepted => {
                let Ok((stream, _)) = accepted else {
                    // Too many open files, or the connection is gone already.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                // A client that reads nothing any more is gone.
                let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD);
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD)
                    .max_buf_size(MOST_HEAD)
                    .serve_connection(TokioIo::new(stream), service.clone());
                let connection = graceful.watch(connection);
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    let _place = place;
                    state.metrics.connections.inc();
                    // A client that misbehaves ends only its own connection.
                    let _ = connection.await;
                    state.metrics.connections.dec();
                });
            }
            _ = look.tick() => reload(&state, false),
            _ = hang_up.recv() => reload(&state, true),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    ending.store(true, Ordering::Relaxed);
    drop(listener);
    tracing::info!("ending: open requests are answered first");
    if tokio::time::timeout(state.options.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were still open after {:?}", state.options.drain);
    }
    Ok(())
}

/// Opens the model again on a thread of its own.
fn reload(state: &Arc<State>, anyway: bool) {
    let state = Arc::clone(state);
    tokio::task::spawn_blocking(move || state.reload(anyway));
}
