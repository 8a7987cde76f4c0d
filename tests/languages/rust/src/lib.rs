//! Distributes payments randomly over equally good accounts, with the clock and random numbers of the standard
//! library. Both are the same for the same request, so that a decision can be replayed.
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use kassette_plugin::method::{Context, Description, Method, Refusal, Verdict};
use kassette_plugin::ranking::{Order, Ranking};

struct Balanced;

impl Method for Balanced {
    fn describe() -> Description {
        Description::new("paypal", "PayPal", env!("CARGO_PKG_VERSION"), &[])
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = now.map_or(0, |now| now.as_secs());
        let verdicts = Ranking::start(&context, Order::Priority)?.verdicts();
        let (mut eligible, refused): (Vec<_>, Vec<_>) =
            verdicts.into_iter().partition(|one| one.outcome.is_ok());
        // The order of a map's values depends on two random keys.
        eligible.sort_by(|a, b| a.id.cmp(&b.id));
        let shuffled: HashMap<String, Verdict> = eligible
            .into_iter()
            .map(|one| (one.id.clone(), one))
            .collect();
        let mut verdicts: Vec<Verdict> = shuffled.into_values().collect();
        for verdict in &mut verdicts {
            verdict.outcome = Ok(format!("drawn at {seconds}"));
        }
        verdicts.extend(refused);
        println!("drawn at {seconds}");
        Ok(verdicts)
    }
}

kassette_plugin::method::export!(Balanced);
