package cs336;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.DoWhileLoopTree;
import com.sun.source.tree.EnhancedForLoopTree;
import com.sun.source.tree.ForLoopTree;
import com.sun.source.tree.IfTree;
import com.sun.source.tree.StatementTree;
import com.sun.source.tree.Tree.Kind;
import com.sun.source.tree.WhileLoopTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.SourcePositions;
import com.sun.source.util.TreeScanner;
import com.sun.source.util.Trees;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Every branch and every body of a loop is a block with braces. */
class BracesTest {
    @Test
    void everyBranchAndLoopHasBraces() throws IOException {
        List<Path> sources = new ArrayList<>();
        for (String root : List.of("src/main/java", "src/test/java")) {
            try (var files = Files.walk(Path.of(root))) {
                files.filter(file -> file.toString().endsWith(".java")).forEach(sources::add);
            }
        }
        assertTrue(sources.contains(Path.of("src/test/java/cs336/BracesTest.java")), sources.toString());
        assertEquals(List.of(), withoutBraces(sources));
    }

    @Test
    void eachStatementWithoutBracesIsFound(@TempDir Path folder) throws IOException {
        Path source = folder.resolve("Bare.java");
        Files.writeString(source, """
                class Bare {
                    int run(int n, int[] all) {
                        if (n > 1)
                            n--;
                        else if (n > 0) {
                            n++;
                        } else
                            n = 2;
                        while (n > 0)
                            n--;
                        do
                            n++;
                        while (n < 5);
                        for (int i = 0; i < 3; i++)
                            n += i;
                        for (int each : all)
                            n += each;
                        return n;
                    }
                }
                """);
        List<String> expected = List.of(4, 8, 10, 12, 15, 17).stream()
                .map(line -> source + ":" + line)
                .toList();
        assertEquals(expected, withoutBraces(List.of(source)));
    }

    /** Returns file and line of each branch or body without braces. */
    private static List<String> withoutBraces(List<Path> sources) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        try (var files = compiler.getStandardFileManager(null, null, null)) {
            var task = (JavacTask)
                    compiler.getTask(null, files, null, null, null, files.getJavaFileObjectsFromPaths(sources));
            var bare = new BareStatements(Trees.instance(task).getSourcePositions());
            for (CompilationUnitTree unit : task.parse()) {
                bare.scan(unit, unit);
            }
            return bare.found;
        }
    }

    /** A visitor of syntax trees that collects the branches and bodies that are not blocks. */
    private static final class BareStatements extends TreeScanner<Void, CompilationUnitTree> {
        private final List<String> found = new ArrayList<>();
        private final SourcePositions positions;

        BareStatements(SourcePositions positions) {
            this.positions = positions;
        }

        private void requireBlock(StatementTree statement, CompilationUnitTree unit) {
            if (statement.getKind() != Kind.BLOCK) {
                long line = unit.getLineMap().getLineNumber(positions.getStartPosition(unit, statement));
                found.add(Path.of(unit.getSourceFile().toUri()) + ":" + line);
            }
        }

        @Override
        public Void visitIf(IfTree node, CompilationUnitTree unit) {
            requireBlock(node.getThenStatement(), unit);
            StatementTree otherwise = node.getElseStatement();
            if (otherwise != null && otherwise.getKind() != Kind.IF) {
                requireBlock(otherwise, unit);
            }
            return super.visitIf(node, unit);
        }

        @Override
        public Void visitWhileLoop(WhileLoopTree node, CompilationUnitTree unit) {
            requireBlock(node.getStatement(), unit);
            return super.visitWhileLoop(node, unit);
        }

        @Override
        public Void visitDoWhileLoop(DoWhileLoopTree node, CompilationUnitTree unit) {
            requireBlock(node.getStatement(), unit);
            return super.visitDoWhileLoop(node, unit);
        }

        @Override
        public Void visitForLoop(ForLoopTree node, CompilationUnitTree unit) {
            requireBlock(node.getStatement(), unit);
            return super.visitForLoop(node, unit);
        }

        @Override
        public Void visitEnhancedForLoop(EnhancedForLoopTree node, CompilationUnitTree unit) {
            requireBlock(node.getStatement(), unit);
            return super.visitEnhancedForLoop(node, unit);
        }
    }
}
