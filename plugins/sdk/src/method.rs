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
//!         Description::new("ideal", "iDEAL | Wero", "1.0.0", &["EUR"])
//!             .translated(&[("nl", "iDEAL | Wero", "Betaal met de app van uw bank.")])
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

/// A payment method's answers; see `routing` in the WIT.
pub trait Method {
    /// What this module is.
    fn describe() -> Description;

    /// Judges the operator's settings together, each of which is of its form; an error is one sentence for
    /// the operator that names a setting. Unless a module has more to say: those of [`ranking`].
    fn check_settings(settings: &[Setting]) -> Result<(), String> {
        ranking::check_settings(settings)
    }

    /// Judges and orders the candidates; an error refuses the method as a whole.
    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal>;
}

/// What a component exports of a [`Method`].
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
    /// A method that can be paid in these currencies; in every currency where none is named.
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

    /// With what the payer reads: language, label and a note, which may be empty.
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

    /// With settings that it knows.
    #[must_use]
    pub fn with_settings(mut self, settings: impl IntoIterator<Item = SettingSpec>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// With a drawing of lines, each the data of an SVG path on a square of 24 by 24.
    #[must_use]
    pub fn drawn(mut self, lines: &[&str]) -> Self {
        let lines = lines.iter().map(|&line| Shape::Line(line.to_owned()));
        self.icon.extend(lines);
        self
    }
}

/// Write one line for the operator; see `log.write` in the WIT. Natively a no-op.
pub fn log(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::method::kassette::plugin::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = (level, message);
}

#[doc(hidden)]
pub const fn implemented_by<T: Method>() {}
