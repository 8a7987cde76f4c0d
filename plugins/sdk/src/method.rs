//! World `method`: which payments a scheme can carry, and through whom.
//!
//! ```
//! use kassette_plugin::method::{Context, Description, Method, Refusal, Verdict};
//! use kassette_plugin::ranking::{self, Order, Ranking};
//!
//! struct Ideal;
//!
//! impl Method for Ideal {
//!     fn describe() -> Description {
//!         Description {
//!             id: "ideal".into(),
//!             label: "iDEAL | Wero".into(),
//!             version: "1.0.0".into(),
//!             currencies: vec!["EUR".into()],
//!         }
//!     }
//!
//!     fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
//!         ranking::require_currency(&context, &["EUR"])?;
//!         Ok(Ranking::of(&context, Order::Priority)?.verdicts())
//!     }
//! }
//!
//! kassette_plugin::method::export!(Ideal);
//! # fn main() {}
//! ```
pub use crate::bindings::method::exports::kassette::plugin::routing::{
    Availability, Candidate, Context, Environment, Ground, Guest as Method, Health,
    Method as Description, Refusal, Setting, Verdict,
};
pub use crate::bindings::method::kassette::plugin::log::Level;
pub use crate::export_method as export;

/// Write one line for the operator; see `log.write` in the WIT. Natively a no-op.
pub fn log(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::method::kassette::plugin::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = (level, message);
}

#[doc(hidden)]
pub const fn implemented_by<T: Method>() {}
