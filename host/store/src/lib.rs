//! Storage of Kassette: traits of whole atomic operations, and sled behind them.
