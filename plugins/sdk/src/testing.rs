//! Tools for native unit tests: a simulated host for provider modules; questions, and checks of the answers, for
//! method modules.
//!
//! ```
//! use kassette_plugin::provider::http::{self, SendFailure, Request, Response, Verb};
//! use kassette_plugin::testing::{self, Host};
//!
//! struct Teapot;
//! impl Host for Teapot {
//!     fn send(&mut self, _: &Request) -> Result<Response, SendFailure> {
//!         Ok(Response { status: 418, headers: vec![], body: vec![] })
//!     }
//! }
//!
//! let request = Request {
//!     verb: Verb::Get, url: "https://vendor.example/tea".into(),
//!     headers: vec![], credentials: vec![], body: vec![], keep: None,
//! };
//! let answer = testing::with_host(Teapot, || http::send(&request));
//! assert_eq!(answer.map(|answer| answer.status), Ok(418));
//! ```
mod host;
mod question;
mod soundness;

pub use host::{Host, with_host};
pub(crate) use host::{get_cached, ready, send, sign, verify};
pub use question::{candidate, context, eligible, set};
pub use soundness::assert_sound;
