package cs336;

import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

/** Dependencies point one way: notebook → report → the rooms of each topic → bench → basics → torch. */
@AnalyzeClasses(packages = "cs336", importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    @ArchTest
    static final ArchRule DEPENDENCIES_POINT_ONE_WAY = layeredArchitecture()
            .consideringOnlyDependenciesInLayers()
            .withOptionalLayers(true)
            .layer("main")
            .definedBy("cs336")
            .layer("notebook")
            .definedBy("cs336.notebook..")
            .layer("report")
            .definedBy("cs336.report..")
            .layer("topics")
            .definedBy(
                    "cs336.distributed..",
                    "cs336.precision..",
                    "cs336.profile..",
                    "cs336.compile..",
                    "cs336.kernels..",
                    "cs336.scaling..")
            .layer("bench")
            .definedBy("cs336.bench..")
            .layer("basics")
            .definedBy("cs336.basics..")
            .layer("torch")
            .definedBy("cs336.torch..")
            .whereLayer("main")
            .mayNotBeAccessedByAnyLayer()
            .whereLayer("notebook")
            .mayOnlyBeAccessedByLayers("main")
            .whereLayer("report")
            .mayOnlyBeAccessedByLayers("main", "notebook")
            .whereLayer("topics")
            .mayOnlyBeAccessedByLayers("main", "notebook", "report")
            .whereLayer("bench")
            .mayOnlyBeAccessedByLayers("main", "notebook", "report", "topics")
            .whereLayer("basics")
            .mayOnlyBeAccessedByLayers("main", "notebook", "report", "topics", "bench");

    @ArchTest
    static final ArchRule NO_ROOMS_NEED_EACH_OTHER =
            slices().matching("cs336.(*)..").should().beFreeOfCycles();
}
