//! The pages' templates with their data.

use askama::Template;
use kassette_domain::brand::{Colour, Support};

use super::amount::Amount;
use super::assets;
use super::icons;
use super::qr::Drawing;
use super::texts::{CHOOSE, NAMES, Texts};

/// The common parts of every page.
pub(crate) struct Frame {
    /// Texts in the page's language.
    pub(crate) t: Texts,
    /// The window's title.
    pub(crate) title: String,
    /// The payment shown on the page.
    pub(crate) summary: Option<Summary>,
    /// Notice above the page: the outcome of the payer's action, or of the last attempt.
    pub(crate) notice: Option<Notice>,
    /// Delayed refresh, see [`super::reply::Refresh::content`].
    pub(crate) refresh: Option<String>,
    /// Target of an immediate redirect.
    pub(crate) leave: Option<String>,
    /// Data for the page's script, if the page waits for a change.
    pub(crate) watch: Option<Watch>,
}

/// A short notice with the payer's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) title: String,
    /// Empty if there is no text.
    pub(crate) text: String,
    /// Whether a payment was declined.
    pub(crate) bad: bool,
}

/// How the page's script follows the payment. It reloads the page only when the version changes.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Path that returns the version of the payment's state.
    pub(crate) status: String,
    /// The version shown on this page.
    pub(crate) version: String,
    /// Target once the version has changed.
    pub(crate) next: String,
}

impl Frame {
    fn style(&self) -> &'static str {
        &assets::STYLE.path
    }

    fn icon(&self) -> &'static str {
        &assets::ICON.path
    }

    fn script(&self) -> &'static str {
        &assets::SCRIPT.path
    }

    fn support(&self) -> Option<&Support> {
        self.summary.as_ref()?.support.as_ref()
    }

    /// Path of the stylesheet for the merchant's color.
    fn colours(&self) -> Option<String> {
        let colour = self.summary.as_ref()?.colour?;
        Some(assets::colours_path(colour))
    }

    /// Tag and name of every language except the page's own.
    fn languages(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let own = self.t.tag();
        NAMES.iter().filter(move |(tag, _)| *tag != own)
    }
}

/// The payment's amount and merchant.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// Whether it is a test payment.
    pub(crate) test: bool,
    /// Sentence about payer and payee.
    pub(crate) line: String,
    /// The merchant's name.
    pub(crate) merchant: String,
    pub(crate) colour: Option<Colour>,
    /// Path of the logo.
    pub(crate) logo: Option<String>,
    /// Contact for payers.
    pub(crate) support: Option<Support>,
    pub(crate) amount: Amount,
    /// The merchant's description of what is paid for.
    pub(crate) about: Option<String>,
    /// The merchant's order reference, unchanged.
    pub(crate) order: String,
}

impl Summary {
    /// Whether the amount is too long for one line in the largest type.
    fn is_long(&self) -> bool {
        let code = self.amount.code.map_or(0, str::len);
        self.amount.text.chars().count() + code > 12
    }

    /// The first letter of the merchant's name, as decoration.
    fn initial(&self) -> String {
        initial(&self.merchant)
    }
}

/// The first letter of a name in upper case.
pub(crate) fn initial(name: &str) -> String {
    let first = name.chars().find(|c| c.is_alphanumeric());
    first.map_or_else(String::new, |c| c.to_uppercase().collect())
}

/// A payment method.
pub(crate) struct Row {
    /// The method's id on the wire.
    pub(crate) method: String,
    /// Whether the merchant selected it when creating the payment.
    pub(crate) preselected: bool,
    /// The method's name.
    pub(crate) label: String,
    /// Lines of text about it; true for a line about a declined attempt.
    pub(crate) says: Vec<(String, bool)>,
    /// Whether its providers have recently failed to respond: it is shown but cannot be chosen.
    pub(crate) is_down: bool,
    /// The icon.
    pub(crate) icon: icons::Drawn,
    /// Id of the first account.
    pub(crate) seen: String,
    /// Name of the account, or a text instead.
    pub(crate) provider: String,
    pub(crate) note: Option<String>,
    /// The link next to it.
    pub(crate) link: Option<String>,
}

/// Page with the list of methods.
#[derive(Template)]
#[template(path = "choose.html")]
pub(crate) struct Choose {
    pub(crate) frame: Frame,
    /// Target of the form.
    pub(crate) action: String,
    /// The methods, best first.
    pub(crate) rows: Vec<Row>,
    /// Whether a method was chosen before.
    pub(crate) again: bool,
    /// URL of the shop, if known.
    pub(crate) back: Option<String>,
}

impl Choose {
    /// The only method, which is shown without a list. `None` otherwise.
    fn only(&self) -> Option<&Row> {
        match self.rows.as_slice() {
            [row] if !row.is_down => Some(row),
            _ => None,
        }
    }
}

/// Page that asks for confirmation because the account has changed.
#[derive(Template)]
#[template(path = "changed.html")]
pub(crate) struct Changed {
    pub(crate) frame: Frame,
    /// Target of the form.
    pub(crate) action: String,
    /// Link to all methods.
    pub(crate) all: String,
    /// The method.
    pub(crate) row: Row,
}

/// Page that redirects to the provider.
#[derive(Template)]
#[template(path = "go.html")]
pub(crate) struct Go {
    pub(crate) frame: Frame,
    pub(crate) target: String,
    /// The provider's name.
    pub(crate) provider: String,
}

/// A question's field.
pub(crate) struct Field {
    /// The field's name in the form.
    pub(crate) name: String,
    /// The question.
    pub(crate) label: String,
    /// The element's type: `email`.
    pub(crate) input: &'static str,
    /// What the browser may fill in; empty if unknown.
    pub(crate) autocomplete: &'static str,
    /// Whether an answer is needed.
    pub(crate) required: bool,
    /// Maximum number of characters.
    pub(crate) most: usize,
    /// Value and label of each choice; empty for a text field.
    pub(crate) choices: Vec<(String, String)>,
    /// The payer's input.
    pub(crate) value: String,
    /// The error of the input.
    pub(crate) error: Option<String>,
}

/// Page with a module's questions.
#[derive(Template)]
#[template(path = "questions.html")]
pub(crate) struct Questions {
    pub(crate) frame: Frame,
    /// Target of the form.
    pub(crate) action: String,
    /// Name of the provider that asks.
    pub(crate) provider: String,
    /// The questions.
    pub(crate) fields: Vec<Field>,
    /// Links to leave the page.
    pub(crate) navigation: Navigation,
}

impl Questions {
    fn any_error(&self) -> bool {
        self.fields.iter().any(|field| field.error.is_some())
    }
}

/// Page of an unanswered invitation.
#[derive(Template)]
#[template(path = "invitation.html")]
pub(crate) struct Invitation {
    pub(crate) frame: Frame,
    /// Target of the form.
    pub(crate) action: String,
    pub(crate) reseller: String,
    /// The merchant's name as the reseller specified it.
    pub(crate) business: String,
    /// Last day for an answer, UTC.
    pub(crate) until: String,
    /// Error of the code.
    pub(crate) error: Option<String>,
}

/// Page of an invitation that was answered or has ended.
#[derive(Template)]
#[template(path = "invitation_over.html")]
pub(crate) struct InvitationOver {
    pub(crate) frame: Frame,
    pub(crate) tone: Tone,
    /// Short title.
    pub(crate) heading: String,
    /// Explanation in a sentence.
    pub(crate) text: String,
}

/// Page with a module's instructions.
#[derive(Template)]
#[template(path = "show.html")]
pub(crate) struct Show {
    pub(crate) frame: Frame,
    /// Short title.
    pub(crate) heading: String,
    /// Instructions.
    pub(crate) text: String,
    /// Remaining time, if the page contains something to pay with.
    pub(crate) left: Option<TimeLeft>,
    /// Labels and values to copy.
    pub(crate) details: Vec<(String, String)>,
    /// The QR code.
    pub(crate) qr: Option<Drawing>,
    /// URL and label of a link to an app or to the provider's page.
    pub(crate) link: Option<(String, String)>,
    /// Path of the form with which the payer requests a report from the provider.
    pub(crate) paid: String,
    /// Links to leave the page.
    pub(crate) navigation: Navigation,
}

/// Remaining time for a payment.
pub(crate) struct TimeLeft {
    /// End of the time, RFC 3339.
    pub(crate) until: String,
    /// Remaining time in a sentence.
    pub(crate) text: String,
}

/// Visual style of a status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Success.
    Good,
    /// Something continues without the payer.
    Waiting,
    /// The payment has ended or something is wrong.
    Bad,
    /// The payer must act.
    Calm,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Waiting => "wait",
            Self::Bad => "bad",
            Self::Calm => "calm",
        }
    }

    const fn icon(self) -> &'static str {
        match self {
            Self::Good => icons::CHECK,
            Self::Waiting => icons::CLOCK,
            Self::Bad => icons::STOP,
            Self::Calm => icons::ARROW,
        }
    }
}

/// The payer's most likely next action.
pub(crate) enum Primary {
    Link {
        href: String,
        label: String,
    },
    /// Posts a module's form to its provider.
    Post {
        url: String,
        /// Names and values of the fields.
        fields: Vec<(String, String)>,
        label: String,
    },
    /// Starts the payment with the same method again.
    Start {
        /// Target of the form.
        action: String,
        /// The method's id on the wire.
        method: String,
        label: String,
    },
}

/// Receipt. Contains neither the payment's id nor card digits.
pub(crate) struct Receipt {
    /// Time of completion, RFC 3339.
    pub(crate) at: String,
    /// The same in a readable form, UTC.
    pub(crate) date: String,
    pub(crate) method: String,
    /// Reference as printed on the provider's statements.
    pub(crate) reference: Option<String>,
    pub(crate) order: String,
    pub(crate) merchant: String,
    pub(crate) paid: Amount,
    /// Day and amount of each completed refund.
    pub(crate) refunds: Vec<(String, Amount)>,
    /// Remainder of `paid`, if there are refunds.
    pub(crate) rest: Option<Amount>,
}

/// Links at the end of a page.
#[derive(Default)]
pub(crate) struct Navigation {
    /// Another method: target of the form, and what happens first.
    pub(crate) another: Option<(String, String)>,
    /// URL of the shop.
    pub(crate) back: Option<String>,
    /// Notice that the page redirects to the shop, and URL of the page without redirect.
    pub(crate) back_soon: Option<(String, String)>,
    /// Whether the payer has nothing left to do on the page.
    pub(crate) done: bool,
    /// URL that stops updates.
    pub(crate) pause: Option<String>,
    /// URL that resumes updates.
    pub(crate) resume: Option<String>,
}

/// Status page of a payment.
#[derive(Template)]
#[template(path = "state.html")]
pub(crate) struct State {
    pub(crate) frame: Frame,
    pub(crate) tone: Tone,
    /// Short title.
    pub(crate) heading: String,
    /// Explanation in a sentence.
    pub(crate) text: String,
    /// Additional text.
    pub(crate) extra: Option<String>,
    /// Name of the provider to which the payer is being redirected.
    pub(crate) on_the_way: Option<String>,
    /// The receipt.
    pub(crate) receipt: Option<Receipt>,
    /// The next action.
    pub(crate) primary: Option<Primary>,
    /// Other links.
    pub(crate) navigation: Navigation,
}
