//! Accepts connections, closes slow ones, and drains them at shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::error::ServerError;
use crate::labeling::Labeling;
use crate::router::router;
use crate::shared::Shared;
use crate::state::{ReloadCause, State};

/// Interval between checks of the model's files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time to receive the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that a client may leave an answer unread, in milliseconds.
const UNREAD_TIMEOUT: u32 = 30_000;
/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 32 << 10;
/// Pause after a failure to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Answers requests until the process is asked to stop. Calls `on_ready` once with the address.
pub(crate) async fn run(
    state: Arc<State>,
    labeling: Option<Arc<Labeling>>,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), ServerError> {
    let address = state.options.listen;
    let listen = |source| ServerError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServerError::Start)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServerError::Start)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(ServerError::Start)?;
    let shared = Shared::new(Arc::clone(&state), labeling).map_err(ServerError::Start)?;
    let connections = Connections {
        state: Arc::clone(&state),
        service: TowerToHyperService::new(router(&shared)),
        open: GracefulShutdown::new(),
    };
    let permits = Arc::new(Semaphore::new(state.options.max_connections.max(1)));
    let mut timer = interval(RELOAD_INTERVAL);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    on_ready(address);
    loop {
        let incoming = async {
            // Connections beyond the limit wait in the backlog of the system.
            let permit = Arc::clone(&permits).acquire_owned().await;
            (listener.accept().await, permit)
        };
        tokio::select! {
            (incoming, permit) = incoming => match (incoming, permit) {
                (Ok((stream, _)), Ok(permit)) => connections.serve(stream, permit),
                // Too many files are open, or the client already closed the connection.
                _ => sleep(ACCEPT_PAUSE).await,
            },
            _ = timer.tick() => reload(&state, ReloadCause::Timer),
            _ = hang_up.recv() => reload(&state, ReloadCause::Signal),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    shared.is_stopping.store(true, Ordering::Relaxed);
    drop(listener);
    tracing::info!("stopping: open requests are answered first");
    let drain = state.options.drain;
    if timeout(drain, connections.open.shutdown()).await.is_err() {
        tracing::warn!("some requests were still open after {drain:?}");
    }
    Ok(())
}

/// The open connections.
struct Connections {
    state: Arc<State>,
    service: TowerToHyperService<Router>,
    open: GracefulShutdown,
}

impl Connections {
    /// Serves a connection in a separate task.
    fn serve(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let _ = stream.set_nodelay(true);
        // The system closes the connection if the client leaves data unread for too long.
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_TIMEOUT);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), self.service.clone());
        let connection = self.open.watch(connection);
        let state = Arc::clone(&self.state);
        tokio::spawn(async move {
            let _permit = permit;
            state.metrics.connections.inc();
            // An error affects only the connection of the client that caused it.
            let _ = connection.await;
            state.metrics.connections.dec();
        });
    }
}

/// Reloads the model on a separate thread if `cause` requires it.
fn reload(state: &Arc<State>, cause: ReloadCause) {
    let state = Arc::clone(state);
    tokio::task::spawn_blocking(move || state.reload(cause));
}
