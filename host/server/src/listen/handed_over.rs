//! Sockets that the service manager binds and hands over (`LISTEN_FDS`, sd_listen_fds(3)). It keeps them
//! through a restart of ours, and connections that are made meanwhile wait in them.

use std::io;
use std::net::TcpListener;

use listenfd::ListenFd;
use socket2::SockRef;

/// The names that systemd's `FileDescriptorName=` gives them.
const PUBLIC: &str = "public";
const ADMIN: &str = "admin";

/// Sockets that are used in place of binding.
#[derive(Debug, Default)]
pub(crate) struct HandedOver {
    /// For `listen`.
    pub(crate) public: Option<TcpListener>,
    /// For `admin_listen`.
    pub(crate) admin: Option<TcpListener>,
}

/// Why the sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandOverError {
    /// The variables make no sense, or a descriptor is not open.
    #[error("LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES hand over no usable sockets: {0}")]
    Variables(io::Error),
    /// A socket by a name that is not ours beside one of ours.
    #[error(
        "a socket named `{0}` was handed over: name it `public` or `admin` (FileDescriptorName=)"
    )]
    Unknown(String),
    /// Two for one listener.
    #[error(
        "two sockets were handed over for the {0} listener: leave one ListenStream= in its socket unit"
    )]
    Twice(&'static str),
    /// Without our names their order counts, and there are two listeners.
    #[error(
        "{0} sockets were handed over without names: name two of them `public` and `admin` (FileDescriptorName=)"
    )]
    TooMany(usize),
    /// No TCP socket.
    #[error(
        "the socket that was handed over for the {listener} listener is not usable: {source}; hand over a listening TCP socket (ListenStream=)"
    )]
    Unusable {
        listener: &'static str,
        source: io::Error,
    },
}

/// Takes the sockets that were handed over to this process; none without the variables. Call it once and
/// before any thread is started, because it removes the variables.
///
/// # Errors
/// [`HandOverError`] where there are sockets that do not fit.
pub(crate) fn handed_over() -> Result<HandedOver, HandOverError> {
    let named = sd_notify::listen_fds_with_names().map_err(HandOverError::Variables)?;
    let names: Vec<String> = named.map(|(_, name)| name).collect();
    let mut taken = HandedOver::default();
    if names.is_empty() {
        return Ok(taken);
    }
    let mut descriptors = ListenFd::from_env();
    for (index, listener) in listeners(&names)?.into_iter().enumerate() {
        let unusable = |source| HandOverError::Unusable { listener, source };
        let socket = descriptors.take_tcp_listener(index).map_err(unusable)?;
        let socket = socket.ok_or_else(|| unusable(io::ErrorKind::NotFound.into()))?;
        if !SockRef::from(&socket).is_listener().map_err(unusable)? {
            return Err(unusable(io::Error::other("it does not listen")));
        }
        socket.set_nonblocking(true).map_err(unusable)?;
        let place = match listener {
            PUBLIC => &mut taken.public,
            _ => &mut taken.admin,
        };
        *place = Some(socket);
    }
    Ok(taken)
}

/// Which listener each socket is for: by its name, or where none has a name of ours by its place.
fn listeners(names: &[String]) -> Result<Vec<&'static str>, HandOverError> {
    let ours = |name: &String| [PUBLIC, ADMIN].into_iter().find(|ours| ours == name);
    let is_named = names.iter().any(|name| ours(name).is_some());
    if !is_named && names.len() > 2 {
        return Err(HandOverError::TooMany(names.len()));
    }
    let mut listeners = Vec::new();
    for (name, by_place) in names.iter().zip([PUBLIC, ADMIN].into_iter().cycle()) {
        let listener = match is_named {
            true => ours(name).ok_or_else(|| HandOverError::Unknown(name.clone()))?,
            false => by_place,
        };
        if listeners.contains(&listener) {
            return Err(HandOverError::Twice(listener));
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        listeners(&names).map_err(|error| error.to_string())
    }

    #[test]
    fn sockets_go_by_their_names_and_without_names_by_their_order() {
        assert_eq!(of(&["admin", "public"]), Ok(vec![ADMIN, PUBLIC]));
        assert_eq!(of(&["admin"]), Ok(vec![ADMIN]));
        assert_eq!(of(&["unknown"]), Ok(vec![PUBLIC]));
        // As systemd names them where nothing is said.
        let unnamed = ["kassette.socket", "kassette-admin.socket"];
        assert_eq!(of(&unnamed), Ok(vec![PUBLIC, ADMIN]));
    }

    #[test]
    fn sockets_that_would_be_left_over_are_refused() {
        for (names, said) in [
            (vec!["public", "public"], "public"),
            (vec!["public", "metrics"], "metrics"),
            (vec!["a", "b", "c"], "3 sockets"),
        ] {
            let refused = of(&names).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
