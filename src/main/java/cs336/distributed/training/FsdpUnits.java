package cs336.distributed.training;

import cs336.basics.Embedding;
import cs336.basics.Linear;
import cs336.basics.NnModule;
import cs336.distributed.collectives.DeviceMesh;
import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.DType;
import cs336.torch.MemoryScope;
import cs336.torch.NoGrad;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;

/**
 * A module whose parameters are divided into shards and units; see {@link FullyShardedDataParallel}.
 *
 * @param mesh the ranks that hold the shards
 * @param parameters by name, in the order of the module
 * @param units in the order of their first modules
 */
record FsdpUnits(NnModule module, DeviceMesh mesh, Map<String, FsdpParameter> parameters, List<FsdpUnit> units) {
    /** Shards an existing module; see the constructor of {@link FullyShardedDataParallel}. */
    static FsdpUnits of(NnModule module, ProcessGroup group, FsdpSettings settings) {
        requireSameSettings(group, settings);
        DeviceMesh mesh = group.mesh(settings.replicas());
        SameParameters.require(group, ModuleTensors.of(module));
        ModuleTensors.broadcast(group, module.namedBuffers());
        FsdpUnits sharded = new Division(module, mesh, settings).divide(Map.of());
        sharded.requireSameUnits(group);
        return sharded;
    }

    /** Constructs a module and shards it; see {@link FullyShardedDataParallel#construct}. */
    static FsdpUnits construct(Supplier<? extends NnModule> constructor, ProcessGroup group, FsdpSettings settings) {
        requireSameSettings(group, settings);
        DeviceMesh mesh = group.mesh(settings.replicas());
        Map<Tensor, FsdpParameter> created = new IdentityHashMap<>();
        BiConsumer<NnModule, Tensor> shard = (layer, weight) -> {
            if (isSharded(layer)) {
                created.put(weight, fromRankZero(weight, true, mesh));
            }
        };
        NnModule module = NnModule.construct(constructor::get, shard);
        FsdpUnits sharded = new Division(module, mesh, settings).divide(created);
        var descriptions = new ArrayList<String>();
        sharded.parameters.forEach((name, parameter) -> descriptions.add(
                SameParameters.describe(name, parameter.masterDtype(), parameter.shape(), parameter.isTrainable())));
        module.namedBuffers().forEach((name, buffer) -> descriptions.add(SameParameters.describe(name, buffer)));
        SameParameters.require(group, descriptions);
        sharded.requireSameUnits(group);
        ModuleTensors.broadcast(group, module.namedBuffers());
        return sharded;
    }

    /** Checks that all ranks have the same settings, before they determine collectives. */
    private static void requireSameSettings(ProcessGroup group, FsdpSettings settings) {
        SameParameters.require(
                group,
                List.of(
                        "computeDtype " + settings.computeDtype(),
                        "reduceDtype " + settings.reduceDtype(),
                        "maxGatheredUnits " + settings.maxGatheredUnits(),
                        "shardedModules " + new TreeSet<>(settings.shardedModules()),
                        "replicas " + settings.replicas()),
                "setting",
                "settings and units");
    }

    /** Checks that all ranks have the same units, because they determine the order of collectives. */
    private void requireSameUnits(ProcessGroup group) {
        var descriptions = new ArrayList<String>();
        for (int i = 0; i < units.size(); i++) {
            for (FsdpParameter parameter : units.get(i).parameters()) {
                descriptions.add(parameter.name() + " in unit " + i + (parameter.isSharded() ? "" : " not sharded"));
            }
        }
        SameParameters.require(group, descriptions, "parameter", "settings and units");
    }

    private static boolean isSharded(NnModule layer) {
        return layer instanceof Linear || layer instanceof Embedding;
    }

    private static FsdpParameter fromRankZero(Tensor weight, boolean sharded, DeviceMesh mesh) {
        try (var scope = MemoryScope.open();
                var noGrad = NoGrad.open()) {
            mesh.all().broadcast(weight.detach(), 0);
            return new FsdpParameter(weight, sharded, mesh.shards());
        }
    }

    /** The division of one module. */
    private record Division(NnModule module, DeviceMesh mesh, FsdpSettings settings) {
        /** @param created the parameters that are shards already, by the tensor of the module */
        FsdpUnits divide(Map<Tensor, FsdpParameter> created) {
            Map<String, Tensor> named = module.namedParameters();
            requireShardable(named);
            Set<Tensor> toShard = toShard(named);
            Map<Tensor, FsdpUnit> unitOf = new IdentityHashMap<>();
            addUnits(module, unitOf);
            if (settings.computeDtype() == null) {
                requireOneDtype(named, toShard, unitOf);
            }
            Map<Tensor, FsdpParameter> byWeight = new IdentityHashMap<>(created);
            Map<String, FsdpParameter> parameters = new LinkedHashMap<>();
            named.forEach((name, weight) -> {
                FsdpParameter parameter =
                        byWeight.computeIfAbsent(weight, w -> fromRankZero(w, toShard.contains(w), mesh));
                parameter.prepare(name, settings.computeDtype(), settings.reduceDtype());
                parameters.put(name, parameter);
            });
            return new FsdpUnits(module, mesh, parameters, units(unitOf, byWeight));
        }

        /** Requires that the parameters of a unit, which one all-gather gathers, have one dtype. */
        private static void requireOneDtype(
                Map<String, Tensor> named, Set<Tensor> toShard, Map<Tensor, FsdpUnit> unitOf) {
            Map<FsdpUnit, String> firstOf = new HashMap<>();
            named.forEach((name, weight) -> {
                String first = toShard.contains(weight) ? firstOf.putIfAbsent(unitOf.get(weight), name) : null;
                if (first != null && DType.of(named.get(first)) != DType.of(weight)) {
                    throw new IllegalArgumentException("parameters " + first + " (" + DType.of(named.get(first))
                            + ") and " + name + " (" + DType.of(weight)
                            + ") of one unit must have one dtype, unless computeDtype is set");
                }
            });
        }

        private Set<Tensor> toShard(Map<String, Tensor> named) {
            Set<Tensor> toShard = Collections.newSetFromMap(new IdentityHashMap<>());
            for (NnModule layer : module.layers()) {
                if (isSharded(layer)) {
                    toShard.addAll(layer.ownParameters());
                }
            }
            named.forEach((name, weight) -> {
                boolean isNamed = settings.shardedModules().stream().anyMatch(m -> name.startsWith(m + "."));
                if (isNamed && weight.dim() > 0) {
                    toShard.add(weight);
                }
            });
            return toShard;
        }

        private void requireShardable(Map<String, Tensor> named) {
            named.forEach((name, parameter) -> {
                if (!parameter.is_floating_point()) {
                    throw new IllegalArgumentException("parameter " + name + " must be a floating-point tensor");
                }
            });
            if (named.values().stream().noneMatch(Tensor::requires_grad)) {
                throw new IllegalArgumentException("module must have a trainable parameter");
            }
            for (String sharded : settings.shardedModules()) {
                if (named.keySet().stream().noneMatch(name -> name.startsWith(sharded + "."))) {
                    throw new IllegalArgumentException("there is no module '" + sharded + "' with parameters to shard");
                }
            }
        }

        /** Returns the units in the order of their first modules. */
        private List<FsdpUnit> units(Map<Tensor, FsdpUnit> unitOf, Map<Tensor, FsdpParameter> byWeight) {
            var distinct = new LinkedHashSet<FsdpUnit>();
            for (Tensor weight : module.parameters()) {
                FsdpUnit unit = unitOf.get(weight);
                unit.add(byWeight.get(weight));
                distinct.add(unit);
            }
            return List.copyOf(distinct);
        }

        private void addUnits(NnModule layer, Map<Tensor, FsdpUnit> unitOf) {
            boolean whole = settings.isUnit().test(layer);
            List<Tensor> weights = whole ? layer.parameters() : layer.ownParameters();
            if (!weights.isEmpty()) {
                FsdpUnit unit = weights.stream()
                        .map(unitOf::get)
                        .filter(known -> known != null)
                        .findFirst()
                        .orElseGet(() -> new FsdpUnit(mesh));
                unit.add(layer);
                for (Tensor weight : weights) {
                    FsdpUnit known = unitOf.put(weight, unit);
                    if (known != null && known != unit) {
                        merge(known, unit, unitOf);
                    }
                }
            }
            if (!whole) {
                layer.children().forEach(child -> addUnits(child, unitOf));
            }
        }

        /** Merges a unit into another one that shares a parameter with it. */
        private static void merge(FsdpUnit from, FsdpUnit into, Map<Tensor, FsdpUnit> unitOf) {
            from.modules().forEach(into::add);
            unitOf.replaceAll((weight, unit) -> unit == from ? into : unit);
        }
    }
}
