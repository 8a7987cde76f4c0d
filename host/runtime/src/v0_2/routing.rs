//! Calls the interface `routing` faster than generated bindings do. These find all functions by name and compare
//! their types for every instance, which takes a twentieth of a `rank`. The types of a version never change, so
//! here they are compared once.

use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, TypedFunc};
use wasmtime::{Engine, Store};

use super::VERSION;
use super::method::{Answer, Description, LoweredContext};

type Rank<'a> = TypedFunc<(&'a LoweredContext<'a>,), (Answer,)>;
type CheckSettings<'a> = TypedFunc<(&'a [(String, String)],), (Result<(), String>,)>;

/// Indexes of the interface's functions in the exports of a component.
#[derive(Clone, Copy)]
pub(crate) struct Exports {
    describe: ComponentExportIndex,
    check_settings: ComponentExportIndex,
    rank: ComponentExportIndex,
}

impl Exports {
    pub(crate) fn find(component: &Component) -> wasmtime::Result<Self> {
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

/// A linked component whose functions have the types of the contract.
pub(crate) struct Routing<T: 'static> {
    pre: InstancePre<T>,
    exports: Exports,
}

impl<T: 'static> Routing<T> {
    /// Compares the types of a linked component with the contract and reads its description.
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

    /// Compares the types of a linked component with the contract. Returns also an instance without calls.
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

    /// Lets an instance check the operator's settings.
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

    /// Calls `rank` of an instance of this component. Panics if the instance belongs to another store.
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
        // SAFETY: the function must have these types. `exports` finds it only in instances of the component of
        // `pre`. `check_types`, the only constructor, has compared the type of this export in that component. The
        // type contains no resources, so it is the same in every instance.
        let rank = unsafe { Rank::new_unchecked(rank) };
        let (answer,) = rank.call(store, (question,))?;
        Ok(answer)
    }
}
