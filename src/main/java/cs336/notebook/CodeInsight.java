package cs336.notebook;

import io.github.spencerpark.jupyter.kernel.ReplacementOptions;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.SourceCodeAnalysis.Documentation;
import jdk.jshell.SourceCodeAnalysis.Suggestion;

/** Help while typing: completion, signatures and documentation, and whether a cell is finished. */
final class CodeInsight {
    private final SourceCodeAnalysis analysis;

    CodeInsight(SourceCodeAnalysis analysis) {
        this.analysis = analysis;
    }

    /** What could stand at {@code position}, expressions of the expected type first. */
    ReplacementOptions complete(String cell, int position) {
        String before = cell.substring(0, position);
        ReplacementOptions options = suggest(before, 0);
        if (options.getReplacements().isEmpty()) {
            // A declaration earlier in the cell can hide what comes after it.
            options = suggest(before, startOfLastSnippet(before));
        }
        return options;
    }

    private ReplacementOptions suggest(String before, int from) {
        int[] anchor = {0};
        String code = before.substring(from);
        List<Suggestion> suggestions = analysis.completionSuggestions(code, code.length(), anchor);
        Set<String> replacements = new LinkedHashSet<>();
        suggestions.stream().filter(Suggestion::matchesType).forEach(s -> replacements.add(s.continuation()));
        suggestions.forEach(s -> replacements.add(s.continuation()));
        return new ReplacementOptions(List.copyOf(replacements), from + anchor[0], before.length());
    }

    /** Signatures and documentation of what is named at {@code position}; null when nothing is known. */
    DisplayData inspect(String cell, int position) {
        int end = position;
        while (end < cell.length() && Character.isJavaIdentifierPart(cell.charAt(end))) {
            end++;
        }
        // The parenthesis tells a call from a name.
        int call = end;
        while (call < cell.length() && Character.isWhitespace(cell.charAt(call))) {
            call++;
        }
        if (call < cell.length() && cell.charAt(call) == '(') {
            end = call + 1;
        }
        String before = cell.substring(0, end);
        List<Documentation> found = analysis.documentation(before, before.length(), true);
        if (found.isEmpty()) {
            String last = before.substring(startOfLastSnippet(before));
            found = analysis.documentation(last, last.length(), true);
        }
        if (found.isEmpty()) {
            return null;
        }
        return new DisplayData(
                found.stream().map(CodeInsight::describe).distinct().collect(Collectors.joining("\n\n")));
    }

    private static String describe(Documentation documentation) {
        String javadoc = documentation.javadoc();
        return documentation.signature() + (javadoc == null || javadoc.isBlank() ? "" : "\n" + plain(javadoc));
    }

    /** Javadoc as text: its tags' contents without the tags. */
    private static String plain(String javadoc) {
        return javadoc.replaceAll("\\{@\\w+\\s+([^{}]*)}", "$1")
                .replaceAll("<p>|</p>", "\n")
                .replaceAll("<[^>]+>", "")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&nbsp;", " ")
                .replace("&amp;", "&")
                .replaceAll("\\n\\s*\\n(\\s*\\n)+", "\n\n")
                .stripTrailing();
    }

    /** "complete", "invalid", or the indent of the next line of a cell that goes on. */
    String isComplete(String cell) {
        Completeness last = Completeness.EMPTY;
        for (String rest = cell; !rest.isBlank(); ) {
            CompletionInfo info = analysis.analyzeCompletion(rest);
            last = info.completeness();
            if (!last.isComplete() || info.remaining().length() >= rest.length()) {
                break;
            }
            rest = info.remaining();
        }
        return switch (last) {
            case COMPLETE, COMPLETE_WITH_SEMI, EMPTY -> "complete";
            case DEFINITELY_INCOMPLETE, CONSIDERED_INCOMPLETE -> indentAfter(cell);
            case UNKNOWN -> "invalid";
        };
    }

    private static String indentAfter(String cell) {
        String line = cell.substring(cell.stripTrailing().lastIndexOf('\n') + 1);
        String indent = line.substring(0, line.length() - line.stripLeading().length());
        return line.stripTrailing().endsWith("{") ? indent + "    " : indent;
    }

    private int startOfLastSnippet(String code) {
        int start = 0;
        while (true) {
            CompletionInfo info = analysis.analyzeCompletion(code.substring(start));
            if (!info.completeness().isComplete()
                    || info.remaining().isBlank()
                    || info.remaining().length() >= code.length() - start) {
                return start;
            }
            start = code.length() - info.remaining().length();
        }
    }
}
