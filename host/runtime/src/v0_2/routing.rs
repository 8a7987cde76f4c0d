//! The interface `routing` of a module, called without what generated bindings do for every instance:
//! they look up all functions and compare all their types, name by name, which takes a twentieth of a
//! `rank`. A version's types never change, so they are compared once.

use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, TypedFunc};
use wasmtime::{Engine, Store};

use super::VERSION;
use super::method::{Answer, Description, LoweredContext};

/// `rank` as the contract has it.
type Rank<'a> = TypedFunc<(&'a LoweredContext<'a>,), (Answer,)>;
/// `check-settings`.
type CheckSettings<'a> = TypedFunc<(&'a [(String, String)],), (Result<(), String>,)>;

/// Where the interface's functions stand among a component's exports.
#[derive(Clone, Copy)]
pub(crate) struct Exports {
    describe: ComponentExportIndex,
    check_settings: ComponentExportIndex,
    rank: ComponentExportIndex,
}

impl Exports {
    pub(crate) fn of(component: &Component) -> wasmtime::Result<Self> {
        let interface = format!("kassette:plugin/routing@{VERSION}");
        let found = component.get_export_index(None, &*interface);
        let function = |name: &str| {
            let found = found.as_ref();
            found
                .and_then(|interface| component.get_export_index(Some(interface), name))
                .ok_or_else(|| wasmtime::Error::msg(format!("{interface} has no function {name}")))
        };
        Ok(Self {
            describe: function("describe")?,
            check_settings: function("check-settings")?,
            rank: function("rank")?,
        })
    }
}

/// A linked component whose functions have been found to be of the contract's types.
pub(crate) struct Routing<T: 'static> {
    pre: InstancePre<T>,
    exports: Exports,
}

impl<T: 'static> Routing<T> {
    /// A linked component, once its types have been compared with the contract's; with it what it says it
    /// is.
    pub(crate) fn described(
        pre: InstancePre<T>,
        exports: Exports,
        mut store: &mut Store<T>,
    ) -> wasmtime::Result<(Self, Description)> {
        let (routing, instance) = Self::check_types(pre, exports, store)?;
        let describe: TypedFunc<(), (Description,)> =
            instance.get_typed_func(&mut store, exports.describe)?;
        let (described,) = describe.call(store, ())?;
        Ok((routing, described))
    }

    /// The same with an instance that has not been asked anything.
    pub(crate) fn check_types(
        pre: InstancePre<T>,
        exports: Exports,
        mut store: &mut Store<T>,
    ) -> wasmtime::Result<(Self, Instance)> {
        let instance = pre.instantiate(&mut store)?;
        let _: Rank<'_> = instance.get_typed_func(&mut store, exports.rank)?;
        let _: CheckSettings<'_> = instance.get_typed_func(&mut store, exports.check_settings)?;
        Ok((Self { pre, exports }, instance))
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.pre.engine()
    }

    pub(crate) fn instantiate(&self, store: &mut Store<T>) -> wasmtime::Result<Instance> {
        self.pre.instantiate(store)
    }

    /// Has an instance judge the operator's settings.
    pub(crate) fn check_settings(
        &self,
        mut store: &mut Store<T>,
        instance: Instance,
        settings: &[(String, String)],
    ) -> wasmtime::Result<Result<(), String>> {
        let check: CheckSettings<'_> =
            instance.get_typed_func(&mut store, self.exports.check_settings)?;
        let (judged,) = check.call(store, (settings,))?;
        Ok(judged)
    }

    /// Asks an instance of this very component; one that is not of the store is a panic.
    pub(crate) fn rank(
        &self,
        mut store: &mut Store<T>,
        instance: Instance,
        question: &LoweredContext<'_>,
    ) -> wasmtime::Result<Answer> {
        let rank = instance.get_func(&mut store, self.exports.rank);
        let rank = rank.ok_or_else(|| wasmtime::Error::msg("another component's instance"))?;
        #[expect(
            unsafe_code,
            reason = "the type is not compared again for each instance"
        )]
        // SAFETY: the function must be of these types. `exports` is found only in instances of the
        // component that `pre` instantiates, and `check_types`, the only way to make this, compared
        // the type that this export has in that component; no resource is in it, so it is the same
        // in every instance.
        let rank = unsafe { Rank::new_unchecked(rank) };
        let (answer,) = rank.call(store, (question,))?;
        Ok(answer)
    }
}
