//! Listeners: sockets, TLS, time-outs, connection caps.
