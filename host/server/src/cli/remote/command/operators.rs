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

/// What can be done with operators.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum OperatorAction {
    /// Make an operator; its token is shown this once.
    ///
    /// With no operator token at hand, or with --config or --data-dir, the operator is written into
    /// the store of a server that is stopped: so the first one is made.
    Create(OperatorCreate),
    /// List operators.
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// End an operator's token at once.
    Delete {
        /// The operator's id.
        operator_id: String,
    },
}

/// A new operator.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct OperatorCreate {
    /// For the audit log; another operator's name is refused.
    #[arg(long)]
    pub(in crate::cli::remote) name: String,
    /// What it may do.
    #[arg(long)]
    pub(in crate::cli::remote) role: Role,
    /// When its token ends, such as 2030-01-31T12:00:00Z.
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
    /// Whether it is written into a store instead of being asked of a server.
    pub(in crate::cli::remote) const fn is_offline(&self, has_token: bool) -> bool {
        self.config.is_some() || self.data_dir.is_some() || !has_token
    }
}

/// What an operator may do.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(in crate::cli) enum Role {
    /// Read everything.
    Viewer,
    /// Change all but operators, the making of merchants and live approval.
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

/// What can be done with nodes.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum NodeAction {
    /// List the nodes that serve the store, and what each has otherwise than the one that answers.
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
        Ok(paging.of(Call::new(Method::GET, ["nodes"]).shown(NODES)))
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
                paging.of(Call::new(Method::GET, ["operators"]).shown(OPERATORS))
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

/// What can be done with the audit log.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum AuditAction {
    /// List who changed what and why, newest first.
    List {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        paging: Paging,
    },
    /// Write all lines that match as CSV, or with --json as an object a line, to standard output, newest
    /// first.
    Export {
        #[command(flatten)]
        which: Which,
    },
    /// Say whether a line was altered, removed or inserted.
    ///
    /// With no operator token at hand, or with --config or --data-dir, the store of a server that is
    /// stopped is looked at.
    Verify {
        #[command(flatten)]
        store: StoppedStore,
    },
}

/// Which lines of the audit log; all that is said must hold.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct Which {
    /// A whole action, such as plugin.disable, or its noun.
    #[arg(long)]
    action: Option<String>,
    /// A whole object, such as merchant/7, or its kind.
    #[arg(long)]
    object: Option<String>,
    /// An operator's name or id.
    #[arg(long)]
    operator: Option<String>,
    #[command(flatten)]
    period: Period,
}

impl Which {
    fn of(self, call: Call) -> Call {
        let call = call
            .with("action", self.action)
            .with("object", self.object)
            .with("operator", self.operator);
        self.period.of(call)
    }
}

impl Noun<AuditAction> {
    /// Where to look, if the log is to be verified; else the command as it is.
    pub(in crate::cli) fn audit_to_verify(self) -> Result<(Connection, StoppedStore), Box<Self>> {
        match self.action {
            AuditAction::Verify { store } => Ok((self.connection, store)),
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
    ],
);

impl Action for AuditAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::List { which, paging } => {
                let call = Call::new(Method::GET, ["audit"]).shown(AUDIT);
                paging.of(which.of(call))
            }
            Self::Export { which } => {
                which.of(Call::new(Method::GET, ["audit", "export"]).shown(Shape::Text))
            }
            Self::Verify { .. } => Call::new(Method::GET, ["audit", "verify"]),
        })
    }
}
