//! Sessions with a PostgreSQL server, and COPY in them. Built on tokio-postgres; every wait is bounded.

pub mod copy;
mod copy_context;
pub mod digest;
pub mod direct;
mod password;
pub mod session;
mod tls;
