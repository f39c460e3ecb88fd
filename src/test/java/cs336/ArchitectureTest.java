package cs336;

import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.tngtech.archunit.core.domain.Dependency;
import com.tngtech.archunit.core.domain.JavaAccess;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Every package is named here with the packages that it may use directly; what those use, it may use too. */
@AnalyzeClasses(packages = "cs336", importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    private static final int MOST_FILES = 40;
    private static final Map<String, Set<String>> MAY_USE = mayUse();

    /** Methods that Gson 2.8.5 does not have. */
    private static final Set<String> OF_NEWER_GSON = Set.of(
            "JsonParser.parseReader",
            "JsonParser.parseString",
            "JsonArray.asList",
            "JsonArray.isEmpty",
            "JsonObject.asMap",
            "JsonObject.isEmpty",
            "JsonReader.setStrictness",
            "JsonReader.setNestingLimit",
            "JsonWriter.setStrictness",
            "JsonWriter.setFormattingStyle",
            "GsonBuilder.setStrictness",
            "GsonBuilder.setObjectToNumberStrategy",
            "GsonBuilder.setNumberToNumberStrategy",
            "GsonBuilder.addReflectionAccessFilter",
            "GsonBuilder.disableJdkUnsafe",
            "GsonBuilder.setFormattingStyle");

    private static Map<String, Set<String>> mayUse() {
        var direct = new LinkedHashMap<String, List<String>>();
        direct.put("torch", List.of());
        direct.put("safetensors", List.of("torch"));
        direct.put("units", List.of());
        direct.put("charts", List.of());
        direct.put("checkpointing", List.of("torch"));
        direct.put("basics", List.of("checkpointing", "safetensors"));
        direct.put("bench", List.of("basics", "units"));
        direct.put("checkpoints", List.of("bench"));
        direct.put("numbers", List.of("bench", "charts"));
        direct.put("precision", List.of("bench"));
        direct.put("scaling.memory", List.of("numbers"));
        direct.put("scaling", List.of("scaling.memory"));
        direct.put("scaling.laws", List.of("scaling"));
        direct.put("kernels.runtime", List.of("bench"));
        direct.put("kernels.norms", List.of("kernels.runtime"));
        direct.put("kernels.attention", List.of("kernels.runtime", "scaling.memory"));
        direct.put("kernels.gemm", List.of("kernels.runtime"));
        direct.put("kernels.loss", List.of("kernels.runtime"));
        direct.put("kernels.optimizer", List.of("kernels.runtime"));
        direct.put(
                "kernels",
                List.of("kernels.norms", "kernels.attention", "kernels.gemm", "kernels.loss", "kernels.optimizer"));
        direct.put("compile.program", List.of("kernels.runtime"));
        direct.put("compile.trace", List.of("compile.program"));
        direct.put("compile.fuse", List.of("compile.trace", "kernels.gemm"));
        direct.put("profile", List.of("numbers"));
        direct.put("profile.memory", List.of("profile", "scaling.memory"));
        direct.put("distributed.collectives", List.of("bench"));
        direct.put("distributed.launch", List.of("distributed.collectives"));
        direct.put("distributed.training", List.of("distributed.collectives"));
        direct.put("compile", List.of("compile.fuse", "distributed.training"));
        direct.put("train", List.of("checkpoints", "compile"));
        direct.put(
                "distributed.bench",
                List.of("checkpoints", "compile", "distributed.launch", "profile.memory", "scaling"));
        direct.put("planner", List.of("distributed.bench"));
        direct.put("figures", List.of("distributed.bench", "kernels", "precision", "scaling.laws"));
        direct.put("writeup", List.of("numbers"));
        direct.put("site", List.of("writeup"));
        direct.put("notebook.widgets", List.of("charts", "units"));
        direct.put("notebook", List.of("figures", "writeup", "compile", "notebook.widgets"));
        direct.put("", List.of("notebook", "planner", "site", "train"));

        var all = new LinkedHashMap<String, Set<String>>();
        direct.forEach((name, others) -> {
            var reached = new HashSet<String>();
            for (String other : others) {
                reached.add(other);
                reached.addAll(all.get(other));
            }
            all.put(name, reached);
        });
        return all;
    }

    private static String name(JavaClass type) {
        return type.getPackageName().equals("cs336")
                ? ""
                : type.getPackageName().substring("cs336.".length());
    }

    @ArchTest
    static void everyPackageIsNamedHere(JavaClasses classes) {
        Set<String> found = classes.stream()
                .filter(type -> !type.getSimpleName().equals("package-info"))
                .map(ArchitectureTest::name)
                .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(new TreeSet<>(MAY_USE.keySet()), found);
    }

    @ArchTest
    static void packagesUseThoseTheyMayUse(JavaClasses classes) {
        var forbidden = new TreeSet<String>();
        for (JavaClass type : classes) {
            for (Dependency dependency : type.getDirectDependenciesFromSelf()) {
                JavaClass target = dependency.getTargetClass().getBaseComponentType();
                if (!target.getPackageName().startsWith("cs336")) {
                    continue;
                }
                if (!name(type).equals(name(target)) && !MAY_USE.get(name(type)).contains(name(target))) {
                    forbidden.add(type.getName() + " uses " + target.getName());
                }
            }
        }
        assertEquals(Set.of(), forbidden);
    }

    /** Gson 2.8.5, which is a part of IJava, comes before this project's on the class path there. */
    @ArchTest
    static void theGsonOfIJavaSuffices(JavaClasses classes) {
        var newer = new TreeSet<String>();
        for (JavaClass type : classes) {
            for (JavaAccess<?> access : type.getAccessesFromSelf()) {
                JavaClass owner = access.getTargetOwner();
                boolean isGson = owner.getPackageName().startsWith("com.google.gson");
                if (isGson && OF_NEWER_GSON.contains(owner.getSimpleName() + "." + access.getName())) {
                    newer.add(access.getDescription());
                }
            }
        }
        assertEquals(Set.of(), newer);
    }

    @ArchTest
    static final ArchRule NO_CYCLES = slices().matching("cs336.(**)").should().beFreeOfCycles();

    /** A reader who meets a simple name finds exactly one type by it. */
    @ArchTest
    static void noTwoTypesShareASimpleName(JavaClasses classes) {
        Map<String, Set<String>> named = classes.stream()
                .filter(type -> !type.isAnonymousClass() && !type.isArray())
                .filter(type -> !type.getSimpleName().equals("package-info"))
                .collect(Collectors.groupingBy(
                        JavaClass::getSimpleName,
                        TreeMap::new,
                        Collectors.mapping(JavaClass::getName, Collectors.toSet())));
        named.values().removeIf(types -> types.size() == 1);
        assertEquals(Map.of(), named);
    }

    @ArchTest
    static void noPackageIsTooLargeToReadItsList(JavaClasses classes) {
        var files = new TreeMap<String, Set<String>>();
        for (JavaClass type : classes) {
            type.getSource()
                    .flatMap(source -> source.getFileName())
                    .ifPresent(file -> files.computeIfAbsent(name(type), p -> new TreeSet<>())
                            .add(file));
        }
        files.values().removeIf(names -> names.size() <= MOST_FILES);
        assertEquals(Map.of(), files);
    }
}
