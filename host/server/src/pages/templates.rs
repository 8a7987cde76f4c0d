//! The pages' templates and what each is filled with.

use askama::Template;
use kassette_domain::brand::Colour;

use super::amount::Amount;
use super::assets;
use super::icons;
use super::qr::Drawing;
use super::texts::{CHOOSE, NAMES, Texts};

/// What stands around every page.
pub(crate) struct Frame {
    /// The language.
    pub(crate) t: Texts,
    /// The window's title.
    pub(crate) title: String,
    /// The payment that the page is about.
    pub(crate) summary: Option<Summary>,
    /// What became of what the payer just did.
    pub(crate) notice: Option<String>,
    /// A delayed refresh, as [`super::reply::Refresh::content`].
    pub(crate) refresh: Option<String>,
    /// An immediate one: where to.
    pub(crate) leave: Option<String>,
}

impl Frame {
    fn style(&self) -> &'static str {
        &assets::STYLE.path
    }

    fn icon(&self) -> &'static str {
        &assets::ICON.path
    }

    /// The stylesheet of the merchant's colour.
    fn colours(&self) -> Option<String> {
        let colour = self.summary.as_ref()?.colour?;
        Some(assets::colours_path(colour))
    }

    /// Tag and name of every language but the page's own.
    fn languages(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let own = self.t.tag();
        NAMES.iter().filter(move |(tag, _)| *tag != own)
    }
}

/// What is paid, to whom.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// Whether no real money moves.
    pub(crate) test: bool,
    /// Who pays whom, or has paid, in a sentence.
    pub(crate) line: String,
    /// The merchant's name.
    pub(crate) merchant: String,
    pub(crate) colour: Option<Colour>,
    /// Where its logo is.
    pub(crate) logo: Option<String>,
    pub(crate) amount: Amount,
    /// The merchant's order reference, exactly.
    pub(crate) order: String,
}

impl Summary {
    /// Whether the amount has more digits than stand in a line of the largest type.
    fn is_long(&self) -> bool {
        let code = self.amount.code.map_or(0, str::len);
        self.amount.text.chars().count() + code > 12
    }

    /// The first letter of the merchant's name, an ornament.
    fn initial(&self) -> String {
        let first = self.merchant.chars().find(|c| c.is_alphanumeric());
        first.map_or_else(String::new, |c| c.to_uppercase().collect())
    }
}

/// A way to pay.
pub(crate) struct Row {
    /// The wire id.
    pub(crate) method: String,
    /// Whether the merchant named it when it made the payment.
    pub(crate) preselected: bool,
    /// The method's name.
    pub(crate) label: String,
    /// A line about it.
    pub(crate) about: Option<String>,
    /// The drawing.
    pub(crate) icon: icons::Drawn,
    /// The first account's id.
    pub(crate) seen: String,
    /// Its name, or words in its place.
    pub(crate) provider: String,
    /// Through whom the money goes, in words; none where the merchant's pages do not say it.
    pub(crate) via: Option<String>,
    pub(crate) note: Option<String>,
    /// The link beside it.
    pub(crate) link: Option<String>,
}

/// The choice of a method.
#[derive(Template)]
#[template(path = "choose.html")]
pub(crate) struct Choose {
    pub(crate) frame: Frame,
    /// Where the form goes.
    pub(crate) action: String,
    /// The methods, best first.
    pub(crate) rows: Vec<Row>,
    /// Back to the shop, where it is known.
    pub(crate) back: Option<String>,
}

/// The same choice once more, because the account changed.
#[derive(Template)]
#[template(path = "changed.html")]
pub(crate) struct Changed {
    pub(crate) frame: Frame,
    /// Where the form goes.
    pub(crate) action: String,
    /// Where all methods are seen.
    pub(crate) all: String,
    /// The method.
    pub(crate) row: Row,
}

/// The page that leads to the vendor.
#[derive(Template)]
#[template(path = "go.html")]
pub(crate) struct Go {
    pub(crate) frame: Frame,
    pub(crate) target: String,
    /// To whom.
    pub(crate) provider: String,
}

/// A question on the page.
pub(crate) struct Field {
    /// Its name in the form.
    pub(crate) name: String,
    /// What is asked.
    pub(crate) label: String,
    /// The element's type: `email`.
    pub(crate) input: &'static str,
    /// What the browser may fill in; empty for nothing known.
    pub(crate) autocomplete: &'static str,
    /// Whether an answer is needed.
    pub(crate) required: bool,
    /// Most characters.
    pub(crate) most: usize,
    /// Value and label of each choice; empty for a text.
    pub(crate) choices: Vec<(String, String)>,
    /// What the payer has entered.
    pub(crate) value: String,
    /// What is wrong with it.
    pub(crate) error: Option<String>,
}

/// A module's questions.
#[derive(Template)]
#[template(path = "questions.html")]
pub(crate) struct Questions {
    pub(crate) frame: Frame,
    /// Where the form goes.
    pub(crate) action: String,
    /// Who wants to know.
    pub(crate) provider: String,
    /// The questions.
    pub(crate) fields: Vec<Field>,
    /// The way out.
    pub(crate) navigation: Navigation,
}

impl Questions {
    fn any_error(&self) -> bool {
        self.fields.iter().any(|field| field.error.is_some())
    }
}

/// An invitation that waits for its answer.
#[derive(Template)]
#[template(path = "invitation.html")]
pub(crate) struct Invitation {
    pub(crate) frame: Frame,
    /// Where the form goes.
    pub(crate) action: String,
    pub(crate) reseller: String,
    /// Whom: what the reseller calls them.
    pub(crate) business: String,
    /// The last day on which it can be answered, UTC.
    pub(crate) until: String,
    /// What is wrong with the code.
    pub(crate) error: Option<String>,
}

/// An invitation that was answered, or cannot be any more.
#[derive(Template)]
#[template(path = "invitation_over.html")]
pub(crate) struct InvitationOver {
    pub(crate) frame: Frame,
    pub(crate) tone: Tone,
    /// In a few words.
    pub(crate) heading: String,
    /// In a sentence.
    pub(crate) text: String,
}

/// A module's instructions.
#[derive(Template)]
#[template(path = "show.html")]
pub(crate) struct Show {
    pub(crate) frame: Frame,
    /// In a few words.
    pub(crate) heading: String,
    /// What to do.
    pub(crate) text: String,
    /// How long, where there is something to pay with.
    pub(crate) left: Option<TimeLeft>,
    /// Labels and values to copy.
    pub(crate) details: Vec<(String, String)>,
    /// The code.
    pub(crate) qr: Option<Drawing>,
    /// What opens an app or the vendor's page, and what it says.
    pub(crate) link: Option<(String, String)>,
    /// Where the vendor is asked for a report.
    pub(crate) paid: String,
    /// The way out.
    pub(crate) navigation: Navigation,
}

/// How long something can be paid.
pub(crate) struct TimeLeft {
    /// RFC 3339.
    pub(crate) until: String,
    /// In a sentence.
    pub(crate) text: String,
}

/// The mood of a page about a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It is done.
    Good,
    /// It goes on by itself.
    Waiting,
    /// It is over, or something is wrong.
    Bad,
    /// The payer is to do something.
    Calm,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Waiting => "waiting",
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

/// The one thing that a payer would do next.
pub(crate) enum Primary {
    Link {
        href: String,
        label: String,
    },
    /// Post a module's form to its vendor.
    Post {
        url: String,
        /// Names and values.
        fields: Vec<(String, String)>,
        label: String,
    },
    /// Start the same way once more.
    Start {
        /// Where the form goes.
        action: String,
        /// The wire id.
        method: String,
        label: String,
    },
}

/// The links at the end of a page.
#[derive(Default)]
pub(crate) struct Navigation {
    /// Another method: where the form goes, and what happens first.
    pub(crate) another: Option<(String, String)>,
    /// Back to the shop.
    pub(crate) back: Option<String>,
    /// That the way back is taken without a click.
    pub(crate) back_soon: Option<String>,
    /// Whether nothing more is to be done here but to leave.
    pub(crate) done: bool,
    /// Updates: where they are stopped.
    pub(crate) pause: Option<String>,
    /// Stopped updates: where they go on.
    pub(crate) resume: Option<String>,
}

/// Where a payment stands.
#[derive(Template)]
#[template(path = "state.html")]
pub(crate) struct State {
    pub(crate) frame: Frame,
    pub(crate) tone: Tone,
    /// In a few words.
    pub(crate) heading: String,
    /// In a sentence.
    pub(crate) text: String,
    /// What else is to be said.
    pub(crate) extra: Option<String>,
    /// What to do next.
    pub(crate) primary: Option<Primary>,
    /// What else can be done.
    pub(crate) navigation: Navigation,
}
