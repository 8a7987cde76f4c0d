//! Operators and the audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use kassette_domain::operator;
use serde_json::json;

use super::payments::Period;
use super::{Action, Noun, Paging};
use crate::cli::remote::Connection;
use crate::cli::remote::call::{Call, Shape};
use crate::cli::stopped_store::StoppedStore;

/// Commands for operators.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum OperatorAction {
    /// Create an operator; its token is shown only this time.
    ///
    /// Without an operator token, or with --config or --data-dir, the operator is written into the store of a
    /// stopped server. This is how the first operator is created.
    Create(OperatorCreate),
    /// List operators.
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Revoke an operator's token immediately.
    Delete {
        /// The operator's id.
        operator_id: String,
    },
}

/// A new operator.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct OperatorCreate {
    /// Name in the audit log; another operator's name is refused.
    #[arg(long)]
    pub(in crate::cli::remote) name: String,
    /// Permissions of the operator.
    #[arg(long)]
    pub(in crate::cli::remote) role: Role,
    /// Expiry of its token, such as 2030-01-31T12:00:00Z.
    #[arg(long)]
    pub(in crate::cli::remote) expires_at: Option<String>,
    /// Configuration folder of the stopped server whose store gets the operator.
    #[arg(long, conflicts_with = "data_dir")]
    pub(in crate::cli::remote) config: Option<PathBuf>,
    /// Its data directory; the master key is KASSETTE_MASTER_KEY or master.key in it.
    #[arg(long)]
    pub(in crate::cli::remote) data_dir: Option<PathBuf>,
}

impl OperatorCreate {
    /// Whether the operator is written into a store instead of created by a server.
    pub(in crate::cli::remote) const fn is_offline(&self, has_token: bool) -> bool {
        self.config.is_some() || self.data_dir.is_some() || !has_token
    }
}

/// Permissions of an operator.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Role {
    /// Read everything.
    Viewer,
    /// Change everything except operators, the creation of merchants and live approval.
    Operator,
    /// Everything.
    Admin,
}

impl From<Role> for operator::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => Self::Viewer,
            Role::Operator => Self::Operator,
            Role::Admin => Self::Admin,
        }
    }
}

/// Commands for nodes.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum NodeAction {
    /// List the nodes that serve the store, and their differences to the node that answers.
    List {
        #[command(flatten)]
        paging: Paging,
    },
}

const NODES: Shape = Shape::List(
    "nodes",
    &[
        ("Name", "/name"),
        ("State", "/state"),
        ("Beat (s)", "/beat_age_seconds"),
        ("Lag", "/lag"),
        ("Drift", "/drift"),
        ("Asked", "/self"),
        ("Version", "/version"),
        ("Started", "/started_at"),
        ("Public", "/public_address"),
        ("Admin", "/admin_address"),
    ],
);

impl Action for NodeAction {
    fn call(self) -> Result<Call, String> {
        let Self::List { paging } = self;
        Ok(paging.put(Call::new(Method::GET, ["nodes"]).shown(NODES)))
    }
}

const OPERATORS: Shape = Shape::List(
    "operators",
    &[
        ("ID", "/operator_id"),
        ("Name", "/name"),
        ("Role", "/role"),
        ("Created", "/created_at"),
        ("Expires", "/expires_at"),
    ],
);

impl Action for OperatorAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::Create(OperatorCreate {
                name,
                role,
                expires_at,
                ..
            }) => {
                let body = json!({
                    "name": name,
                    "role": operator::Role::from(role),
                    "expires_at": expires_at,
                });
                Call::new(Method::POST, ["operators"])
                    .body(body)
                    .shown(Shape::Once)
            }
            Self::List { paging } => {
                paging.put(Call::new(Method::GET, ["operators"]).shown(OPERATORS))
            }
            Self::Delete { operator_id } => {
                let done = format!("The operator {operator_id} is removed.");
                Call::new(Method::DELETE, ["operators", &operator_id]).shown(Shape::Nothing(done))
            }
        })
    }

    fn first_operator(&self) -> Option<&OperatorCreate> {
        match self {
            Self::Create(create) => Some(create),
            Self::List { .. } | Self::Delete { .. } => None,
        }
    }
}

/// Commands for the audit log.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum AuditAction {
    /// List changes with their authors and reasons, newest first.
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        paging: Paging,
    },
    /// Write all matching entries to standard output, newest first, as CSV, or with --json as JSON lines.
    Export {
        #[command(flatten)]
        which: Which,
    },
    /// Check whether an entry was altered, removed or inserted.
    ///
    /// Without an operator token, or with --config or --data-dir, the store of a stopped server is read.
    Verify {
        #[command(flatten)]
        store: StoppedStore,
        /// An entry whose hash was recorded earlier: proves that the log up to it was not rewritten since.
        #[arg(long, requires = "hash")]
        entry: Option<u64>,
        /// The recorded hash of the entry.
        #[arg(long, requires = "entry")]
        hash: Option<String>,
    },
}

/// Filter for entries of the audit log; all given conditions must hold.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Which {
    /// A whole action, such as plugin.disable, or only its noun.
    #[arg(long)]
    action: Option<String>,
    /// A whole object, such as merchant/7, or only its kind.
    #[arg(long)]
    object: Option<String>,
    /// An operator's name or id.
    #[arg(long)]
    operator: Option<String>,
    #[command(flatten)]
    period: Period,
}

impl Which {
    fn put(self, call: Call) -> Call {
        let call = call
            .with("action", self.action)
            .with("object", self.object)
            .with("operator", self.operator);
        self.period.put(call)
    }
}

/// Location of the log, and an entry with its recorded hash.
type AuditToVerify = (Connection, StoppedStore, Option<(u64, String)>);

impl Noun<AuditAction> {
    /// The parameters for verifying the log; otherwise returns the command.
    pub(in crate::cli) fn audit_to_verify(self) -> Result<AuditToVerify, Box<Self>> {
        match self.action {
            AuditAction::Verify { store, entry, hash } => {
                Ok((self.connection, store, entry.zip(hash)))
            }
            AuditAction::List { .. } | AuditAction::Export { .. } => Err(Box::new(self)),
        }
    }
}

const AUDIT: Shape = Shape::List(
    "entries",
    &[
        ("ID", "/id"),
        ("At", "/at"),
        ("Operator", "/operator"),
        ("Action", "/action"),
        ("Object", "/object"),
        ("Reason", "/reason"),
        ("Actor", "/actor"),
        ("Before", "/before"),
        ("After", "/after"),
    ],
);

impl Action for AuditAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::List { which, paging } => {
                let call = Call::new(Method::GET, ["audit"]).shown(AUDIT);
                paging.put(which.put(call))
            }
            Self::Export { which } => {
                which.put(Call::new(Method::GET, ["audit", "export"]).shown(Shape::Text))
            }
            Self::Verify { .. } => Call::new(Method::GET, ["audit", "verify"]),
        })
    }
}
