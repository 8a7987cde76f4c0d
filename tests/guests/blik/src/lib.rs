//! BLIK: a code of six digits that the payer's Polish bank shows. It stands for any method of which the
//! host has no line.
use kassette_plugin::method::{Context, Description, Method, Refusal, Verdict};
use kassette_plugin::ranking::{self, Order, Ranking};

struct Blik;

impl Method for Blik {
    fn describe() -> Description {
        Description::new("blik", "BLIK", env!("CARGO_PKG_VERSION"), &["PLN"])
            .translated(&[("de", "BLIK", "Sechs Ziffern aus Ihrer Banking-App.")])
            .drawn(&["M4 12h16"])
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &["PLN"])?;
        ranking::require_country(&context, &["PL"], "BLIK needs a Polish bank account")?;
        Ok(Ranking::of(&context, Order::Priority)?.verdicts())
    }
}

kassette_plugin::method::export!(Blik);
