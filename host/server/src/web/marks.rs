//! What the layers of one request tell each other through its extensions, or those of its answer.

/// Put into the extensions of a 500: why, for the log. Callers never see it.
#[derive(Clone, Debug)]
pub(crate) struct InternalCause(pub(crate) String);

/// Put into the extensions of an answer: the connection is to be read again only after a pause. On
/// HTTP/2, where many requests share a connection, it is read more slowly once there were many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseReading;

/// Put into the extensions of a request: its sender holds too many bytes already, so it is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverBudget;
