//! The only crate of Tipple with threads, files and sockets.
