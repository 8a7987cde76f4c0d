//! World `method`: decides which payments a scheme can carry, and through which accounts.
//!
//! ```
//! use kassette_plugin::method::{Context, Description, Method, Refusal, Verdict};
//! use kassette_plugin::ranking::{self, Order, Ranking};
//!
//! struct Ideal;
//!
//! impl Method for Ideal {
//!     fn describe() -> Description {
//!         Description::new("ideal", "iDEAL | Wero", "1.0.0", &["EUR"])
//!             .translated(&[("nl", "iDEAL | Wero", "Betaal met de app van uw bank.")])
//!     }
//!
//!     fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
//!         ranking::require_currency(&context, &["EUR"])?;
//!         Ok(Ranking::start(&context, Order::Priority)?.verdicts())
//!     }
//! }
//!
//! kassette_plugin::method::export!(Ideal);
//! # fn main() {}
//! ```
use std::marker::PhantomData;

use crate::bindings::method::exports::kassette::plugin::routing::Guest;
pub use crate::bindings::method::exports::kassette::plugin::routing::{
    Availability, Candidate, Context, Description, Environment, Ground, Health, Refusal, Setting,
    SettingSpec, Shape, Translation, Verdict,
};
pub use crate::bindings::method::kassette::plugin::log::Level;
pub use crate::bindings::method::kassette::plugin::types::SettingForm;
pub use crate::export_method as export;
use crate::ranking;

/// A payment method; see `routing` in the WIT.
pub trait Method {
    /// Describes the module.
    fn describe() -> Description;

    /// Checks the operator's settings together. Each of them already has a valid form. The error is one sentence
    /// for the operator that names a setting. By default checks the settings of [`ranking`].
    fn check_settings(settings: &[Setting]) -> Result<(), String> {
        ranking::check_settings(settings)
    }

    /// Checks and orders the candidates. An error refuses the whole method.
    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal>;
}

/// Exports of a component for a [`Method`].
#[doc(hidden)]
pub struct Exported<T>(PhantomData<T>);

impl<T: Method> Guest for Exported<T> {
    fn describe() -> Description {
        T::describe()
    }

    fn check_settings(settings: Vec<Setting>) -> Result<(), String> {
        T::check_settings(&settings)
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        T::rank(context)
    }
}

impl Description {
    /// A method with these currencies. An empty list means every currency.
    #[must_use]
    pub fn new(id: &str, label: &str, version: &str, currencies: &[&str]) -> Self {
        Self {
            id: id.to_owned(),
            label: label.to_owned(),
            version: version.to_owned(),
            currencies: currencies.iter().map(|&code| code.to_owned()).collect(),
            translations: Vec::new(),
            icon: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Adds texts for the payer: language, label and note. An empty note is left out.
    #[must_use]
    pub fn translated(mut self, translations: &[(&str, &str, &str)]) -> Self {
        let translation = |&(language, label, note): &(&str, &str, &str)| Translation {
            language: language.to_owned(),
            label: label.to_owned(),
            note: (!note.is_empty()).then(|| note.to_owned()),
        };
        self.translations
            .extend(translations.iter().map(translation));
        self
    }

    /// Adds settings that the module reads.
    #[must_use]
    pub fn with_settings(mut self, settings: impl IntoIterator<Item = SettingSpec>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// Adds an icon of lines, each the data of an SVG path in a square of 24 by 24.
    #[must_use]
    pub fn drawn(mut self, lines: &[&str]) -> Self {
        let lines = lines.iter().map(|&line| Shape::Line(line.to_owned()));
        self.icon.extend(lines);
        self
    }
}

/// Writes one line to the operator's log; see `log.write` in the WIT. Does nothing in native builds.
pub fn log(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::method::kassette::plugin::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = (level, message);
}

#[doc(hidden)]
pub const fn implemented_by<T: Method>() {}
