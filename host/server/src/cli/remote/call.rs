//! One call to the admin API.

use http::Method;
use serde_json::Value;

/// What is asked, and how the answer is shown.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Call {
    /// GET, POST, PATCH, DELETE.
    pub(super) method: Method,
    /// Segments below the base, not yet percent-encoded.
    pub(super) path: Vec<String>,
    /// Query parameters.
    pub(super) query: Vec<(&'static str, String)>,
    /// JSON, where the call has such a body.
    pub(super) body: Option<Value>,
    /// The slot whose candidate's digest is asked for first, and put into the body.
    pub(super) candidate_of: Option<String>,
    /// A component, where that is the body.
    pub(super) module: Option<Vec<u8>>,
    /// What comes back.
    pub(super) shape: Shape,
    /// The option, with its value, by which the command is repeated where no answer came.
    pub(super) again: Option<(&'static str, String)>,
}

/// Titles and JSON pointers into an item, what matters most first: where there is no room for all, the last
/// ones are left out.
pub(super) type Columns = &'static [(&'static str, &'static str)];

/// A part of an answer that is shown beside its list: `items` with their `count`, of which the answer need
/// not hold all.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Beside {
    /// The field that holds both; null where it is not known yet.
    pub(super) field: &'static str,
    /// Name of its list.
    pub(super) items: &'static str,
    /// What they are.
    pub(super) what: &'static str,
    pub(super) columns: Columns,
    /// What shows all of them.
    pub(super) all: &'static str,
}

/// How an answer is shown to people.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum Shape {
    /// A list under a name: a column each, by JSON pointer into an item.
    List(&'static str, Columns),
    /// The same, with a list of each item's in rows of their own below it.
    ListOfLists(&'static str, &'static str, Columns),
    /// A list with something beside it.
    ListBeside(&'static str, Columns, Beside),
    /// An object.
    Object,
    /// An object with a secret that is shown this once.
    Once,
    /// No content: this sentence.
    Nothing(String),
    /// An object of numbers: the call is repeated with the `cursor` of the answer before, and each is their sum.
    /// Named is what is done.
    Sums(&'static str),
    /// Lines that say how far it is, and last an object.
    Diff,
    /// Text that is written as it comes: CSV, or an object of JSON a line.
    Text,
}

impl Call {
    /// A call without query and body that answers an object.
    pub(super) fn new<S: ToString>(method: Method, path: impl IntoIterator<Item = S>) -> Self {
        Self {
            method,
            path: path
                .into_iter()
                .map(|segment| segment.to_string())
                .collect(),
            query: Vec::new(),
            body: None,
            candidate_of: None,
            module: None,
            shape: Shape::Object,
            again: None,
        }
    }

    /// With a query parameter, where there is a value.
    pub(super) fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query
            .extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// With the digest of a slot's candidate as a field of its body.
    pub(super) fn of_candidate(mut self, slot: String) -> Self {
        self.candidate_of = Some(slot);
        self
    }

    /// With a component as its body.
    pub(super) fn module(mut self, module: Vec<u8>) -> Self {
        self.module = Some(module);
        self
    }

    /// With an option that makes a repeated command the same one.
    pub(super) fn repeatable(mut self, option: &'static str, value: String) -> Self {
        self.again = Some((option, value));
        self
    }

    /// With another shape of the answer.
    pub(super) fn shown(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }
}
