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
    /// A component, where that is the body.
    pub(super) module: Option<Vec<u8>>,
    /// What comes back.
    pub(super) shape: Shape,
}

/// How an answer is shown to people.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum Shape {
    /// A list under a name: a column each, by JSON pointer into an item.
    List(&'static str, &'static [(&'static str, &'static str)]),
    /// An object.
    Object,
    /// An object with a secret that is shown this once.
    Once,
    /// No content: this sentence.
    Nothing(String),
    /// Text that is written as it comes.
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
            module: None,
            shape: Shape::Object,
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

    /// With a component as its body.
    pub(super) fn module(mut self, module: Vec<u8>) -> Self {
        self.module = Some(module);
        self
    }

    /// With another shape of the answer.
    pub(super) fn shown(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }
}
