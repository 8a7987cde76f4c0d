//! Sockets that the service manager binds and passes to this process (`LISTEN_FDS`, sd_listen_fds(3)). The service
//! manager keeps them open during a restart, so that new connections wait in them.

use std::io;
use std::net::TcpListener;

use listenfd::ListenFd;
use socket2::SockRef;

/// Values of systemd's `FileDescriptorName=` that identify the sockets.
const PUBLIC: &str = "public";
const ADMIN: &str = "admin";

/// Sockets that replace binding.
#[derive(Debug, Default)]
pub(crate) struct HandedOver {
    /// For `listen`.
    pub(crate) public: Option<TcpListener>,
    /// For `admin_listen`.
    pub(crate) admin: Option<TcpListener>,
}

/// Reason why the passed sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandOverError {
    /// The variables are inconsistent, or a descriptor is not open.
    #[error("LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES hand over no usable sockets: {0}")]
    Variables(io::Error),
    /// A socket has an unknown name, while another one has a known name.
    #[error(
        "a socket named `{0}` was handed over: name it `public` or `admin` (FileDescriptorName=)"
    )]
    Unknown(String),
    /// Two sockets are for the same listener.
    #[error(
        "two sockets were handed over for the {0} listener: leave one ListenStream= in its socket unit"
    )]
    Twice(&'static str),
    /// More than two sockets, and none has a known name. Without names, the order decides.
    #[error(
        "{0} sockets were handed over without names: name two of them `public` and `admin` (FileDescriptorName=)"
    )]
    TooMany(usize),
    /// Not a listening TCP socket.
    #[error(
        "the socket that was handed over for the {listener} listener is not usable: {source}; hand over a listening TCP socket (ListenStream=)"
    )]
    Unusable {
        listener: &'static str,
        source: io::Error,
    },
}

/// Takes the sockets that the service manager passed to this process. Empty if the variables are not set. Call it
/// once and before any thread starts, because it removes the variables.
///
/// # Errors
/// [`HandOverError`] if the sockets cannot be used.
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

/// Assigns sockets to listeners: by name, or by order if none has a known name.
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

    fn checked(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        listeners(&names).map_err(|error| error.to_string())
    }

    #[test]
    fn sockets_go_by_their_names_and_without_names_by_their_order() {
        assert_eq!(checked(&["admin", "public"]), Ok(vec![ADMIN, PUBLIC]));
        assert_eq!(checked(&["admin"]), Ok(vec![ADMIN]));
        assert_eq!(checked(&["unknown"]), Ok(vec![PUBLIC]));
        // Default names of systemd.
        let unnamed = ["kassette.socket", "kassette-admin.socket"];
        assert_eq!(checked(&unnamed), Ok(vec![PUBLIC, ADMIN]));
    }

    #[test]
    fn sockets_that_would_be_left_over_are_refused() {
        for (names, said) in [
            (vec!["public", "public"], "public"),
            (vec!["public", "metrics"], "metrics"),
            (vec!["a", "b", "c"], "3 sockets"),
        ] {
            let refused = checked(&names).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
