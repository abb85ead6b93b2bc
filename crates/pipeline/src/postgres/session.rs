//! One session: connecting, running statements, waiting without hanging.
//!
//! A session belongs to one thread and brings its own single-threaded runtime: the connection makes progress only
//! while this thread waits in [`Session::wait`], and parsing and sending take turns without hand-over.

use super::{password, tls};
use crate::counters::Counters;
use crate::error::{Error, Result, ServerError};
use crate::plan::Connection;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

/// How often a wait looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// A session with the server.
#[derive(Debug)]
pub struct Session {
    // The client is declared first: it is dropped, and says goodbye, before its runtime goes.
    client: Client,
    runtime: Runtime,
    waits: Waits,
    /// By their text: a stream that fills many partitions begins the same few COPY statements again and again.
    prepared: RefCell<HashMap<String, Statement>>,
    /// How long a wait goes on though the job was cancelled.
    persistence: Cell<Duration>,
}

/// What bounds every wait.
#[derive(Debug, Clone)]
pub struct Waits {
    /// Give the peer up after this long without an answer.
    pub stall: Duration,
    /// The job's counters, which say whether it was cancelled.
    pub counters: Arc<Counters>,
}

impl Session {
    /// Connects and runs `statements`.
    ///
    /// # Errors
    /// [`Error::Connection`] where no connection comes about, [`Error::Server`] where the server refuses it,
    /// [`Error::Invalid`] where no other attempt can succeed.
    pub fn connect(connection: &Connection, suffix: &str, statements: &[String], waits: Waits) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Internal { message: format!("runtime: {error}") })?;
        let mut config = configuration(connection, suffix);
        let limit = Duration::from_secs(connection.connect_timeout_seconds.max(1));
        let limits = (limit, Duration::ZERO);
        let open = |config: &Config| bounded(&runtime, &waits, limits, "connecting", opened(connection, config));
        let client = match connection.password.as_deref().and_then(password::for_scram) {
            None => open(&config),
            // Which way the server asks for passwords is not known before it does. Most ask for SCRAM; one that does not
            // refuses this key, and is given the password.
            Some(key) => {
                let as_given = config.clone();
                open(config.password(key)).or_else(|error| match error {
                    Error::Cancelled | Error::Invalid { .. } => Err(error),
                    _ => open(&as_given),
                })
            }
        }?;
        let session = Self { client, runtime, waits, prepared: RefCell::default(), persistence: Cell::default() };
        for statement in statements {
            session.run(statement, "preparing the session")?;
        }
        Ok(session)
    }

    /// The client, for calls whose future goes to [`Session::wait`].
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs one or several statements without parameters.
    ///
    /// # Errors
    /// What the server or the connection says.
    pub fn run(&self, statements: &str, doing: &str) -> Result<()> {
        self.wait(doing, async {
            self.client.batch_execute(statements).await.map_err(|error| from_server(&error, doing))
        })
    }

    /// Runs a statement and gives its rows; parameters are text.
    ///
    /// # Errors
    /// What the server or the connection says.
    pub fn query(&self, statement: &str, doing: &str) -> Result<Vec<Row>> {
        self.wait(doing, async { self.client.query(statement, &[]).await.map_err(|error| from_server(&error, doing)) })
    }

    /// The statement, prepared when it is used for the first time.
    ///
    /// # Errors
    /// What the server or the connection says.
    pub fn prepare(&self, statement: &str, doing: &str) -> Result<Statement> {
        if let Some(known) = self.prepared.borrow().get(statement) {
            return Ok(known.clone());
        }
        let prepared = self
            .wait(doing, async { self.client.prepare(statement).await.map_err(|error| from_server(&error, doing)) })?;
        self.prepared.borrow_mut().insert(statement.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// From now on each wait goes on for so long after the job was cancelled.
    pub fn persist(&self, limit: Duration) {
        self.persistence.set(limit);
    }

    /// Waits for `future`, but not for ever, and not on after the job was cancelled.
    ///
    /// # Errors
    /// The future's own, [`Error::Cancelled`], or [`Error::Connection`] after the stall limit.
    pub fn wait<T>(&self, doing: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
        bounded(&self.runtime, &self.waits, (self.waits.stall, self.persistence.get()), doing, future)
    }
}

fn bounded<T>(
    runtime: &Runtime,
    waits: &Waits,
    (limit, persistence): (Duration, Duration),
    doing: &str,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    runtime.block_on(async {
        let begin = Instant::now();
        tokio::pin!(future);
        loop {
            match tokio::time::timeout(CANCEL_CHECK, &mut future).await {
                Ok(result) => return result,
                Err(_) if waits.counters.is_cancelled() && begin.elapsed() >= persistence => {
                    return Err(Error::Cancelled);
                }
                Err(_) if begin.elapsed() >= limit => {
                    return Err(Error::Connection {
                        message: format!("no answer from the server for {} seconds", limit.as_secs()),
                        doing: doing.into(),
                    });
                }
                Err(_) => {}
            }
        }
    })
}

async fn opened(connection: &Connection, config: &Config) -> Result<Client> {
    let failed = |error| from_server(&error, "connecting");
    if connection.sslmode == "disable" || socket_directory(&connection.host).is_some() {
        let (client, driver) = config.connect(NoTls).await.map_err(failed)?;
        tokio::spawn(driver);
        Ok(client)
    } else {
        let (client, driver) = config.connect(tls::connector(connection)?).await.map_err(failed)?;
        tokio::spawn(driver);
        Ok(client)
    }
}

/// The directory of a Unix socket, where the host is one.
///
/// As in libpq (`is_unixsock_path` in PostgreSQL's src/include/libpq/pqcomm.h), an `@` begins a name that is in no
/// directory (unix(7), "Address format"); for the kernel, and for tokio, that sign is a zero character.
fn socket_directory(host: &str) -> Option<Cow<'_, str>> {
    match host.strip_prefix('@') {
        Some(name) => Some(format!("\0{name}").into()),
        None => host.starts_with('/').then_some(host.into()),
    }
}

fn configuration(connection: &Connection, suffix: &str) -> Config {
    let mut config = Config::new();
    if let Some(directory) = socket_directory(&connection.host) {
        config.host_path(directory.as_ref());
    } else {
        config.host(&connection.host);
        if let Some(address) = connection.hostaddr.as_deref().and_then(|address| address.parse().ok()) {
            config.hostaddr(address);
        }
    }
    config
        .port(connection.port)
        .user(&connection.user)
        .dbname(&connection.dbname)
        .application_name(format!("{}{suffix}", connection.application_name))
        .connect_timeout(Duration::from_secs(connection.connect_timeout_seconds))
        .tcp_user_timeout(Duration::from_secs(connection.tcp_user_timeout_seconds))
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(connection.tcp_user_timeout_seconds.max(1)))
        .ssl_mode(match connection.sslmode.as_str() {
            "disable" => SslMode::Disable,
            "allow" | "prefer" => SslMode::Prefer,
            _ => SslMode::Require,
        });
    if let Some(password) = &connection.password {
        config.password(password);
    }
    if let Some(options) = &connection.options {
        config.options(options);
    }
    match connection.channel_binding.as_deref() {
        Some("disable") => {
            config.channel_binding(ChannelBinding::Disable);
        }
        Some("require") => {
            config.channel_binding(ChannelBinding::Require);
        }
        _ => {}
    }
    config
}

/// A driver error as one of ours: what the server said, a handshake that cannot succeed, or a lost connection.
#[must_use]
pub fn from_server(error: &tokio_postgres::Error, doing: &str) -> Error {
    let Some(server) = error.as_db_error() else {
        if let Some(reason) = tls::reason(error) {
            return reason;
        }
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            message = format!("{message}: {inner}");
            cause = inner.source();
        }
        return Error::Connection { message, doing: doing.into() };
    };
    let lost = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    // A pooler says of a lost connection that the protocol was violated; of what COPY was sent, the server itself does.
    let of_rows = server.where_().is_some();
    if lost.contains(server.code()) || (server.code().code().starts_with("08") && !of_rows) {
        return Error::Connection { message: server.message().into(), doing: doing.into() };
    }
    Error::Server(Box::new(ServerError {
        message: server.message().into(),
        sqlstate: server.code().code().into(),
        detail: server.detail().map(Into::into),
        hint: server.hint().map(Into::into),
        context: server.where_().map(Into::into),
        constraint: server.constraint().map(Into::into),
        routine: server.routine().map(Into::into),
        doing: doing.into(),
    }))
}
