package cs336.notebook;

import io.github.spencerpark.jupyter.kernel.ReplacementOptions;
import io.github.spencerpark.jupyter.kernel.display.DisplayData;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.lang.model.SourceVersion;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.SourceCodeAnalysis.Documentation;
import jdk.jshell.SourceCodeAnalysis.Suggestion;

/** Code completion, documentation at the cursor, and a check whether a cell is complete. */
final class CodeInsight {
    private static final Set<String> OF_EVERY_OBJECT =
            Set.of("equals", "getClass", "hashCode", "notify", "notifyAll", "toString", "wait");

    /** The begin of a line, up to a position inside of a string. */
    private static final Pattern IN_STRING = Pattern.compile(
            "(?:[^\"'/]|/(?!/)|'(?:\\\\.|[^'\\\\])*'|\"(?:\\\\.|[^\"\\\\])*\")*+\"(?:\\\\.|[^\"\\\\])*");

    private final SourceCodeAnalysis analysis;
    private final SourceDocs sources;

    /** @param sources the Javadoc of this project */
    CodeInsight(SourceCodeAnalysis analysis, SourceDocs sources) {
        this.analysis = analysis;
        this.sources = sources;
    }

    /** Returns completions at {@code position}, expressions of the expected type first; none inside of a string. */
    ReplacementOptions complete(String cell, int position) {
        String before = cell.substring(0, position);
        if (IN_STRING.matcher(before.substring(before.lastIndexOf('\n') + 1)).matches()) {
            return new ReplacementOptions(List.of(), position, position);
        }
        ReplacementOptions options = suggest(before, 0);
        if (options.getReplacements().isEmpty()) {
            // JShell may find nothing if a declaration precedes the last snippet.
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
        // Rarely wanted names come last: internal names of libtorch, and the methods of every object.
        List<String> rare =
                replacements.stream().filter(CodeInsight::isRarelyWanted).toList();
        rare.forEach(replacements::remove);
        replacements.addAll(rare);
        return new ReplacementOptions(List.copyOf(replacements), from + anchor[0], before.length());
    }

    private static boolean isRarelyWanted(String replacement) {
        return replacement.startsWith("_") || OF_EVERY_OBJECT.contains(replacement.replaceFirst("\\(.*", ""));
    }

    /** Returns the kinds of completions, as JupyterLab shows them next to the names. */
    static Map<String, Object> kinds(List<String> replacements, int start, int end) {
        List<Map<String, Object>> kinds = new ArrayList<>();
        for (String replacement : replacements) {
            kinds.add(Map.of("text", replacement, "type", kind(replacement), "start", start, "end", end));
        }
        return Map.of("_jupyter_types_experimental", kinds);
    }

    private static String kind(String replacement) {
        String name = replacement.replaceFirst("[(<].*", "");
        if (replacement.contains("(")) {
            return Character.isUpperCase(name.charAt(0)) ? "class" : "function";
        }
        if (SourceVersion.isKeyword(name)) {
            return "keyword";
        }
        if (replacement.endsWith(".")) {
            return "module";
        }
        return name.matches("[A-Z]\\w*[a-z]\\w*|[A-Z]") ? "class" : "instance";
    }

    /** Returns signatures and documentation of the name at {@code position}; null if unknown. */
    DisplayData inspect(String cell, int position) {
        int end = position;
        while (end < cell.length() && Character.isJavaIdentifierPart(cell.charAt(end))) {
            end++;
        }
        // Include the parenthesis, which distinguishes a call from a name.
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
        var shown =
                new DisplayData(found.stream().map(this::describe).distinct().collect(Collectors.joining("\n\n")));
        shown.putMarkdown(
                found.stream().map(this::describeAsMarkdown).distinct().collect(Collectors.joining("\n\n---\n\n")));
        return shown;
    }

    private String describe(Documentation documentation) {
        String javadoc = javadoc(documentation);
        return documentation.signature() + (javadoc.isEmpty() ? "" : "\n" + plain(javadoc));
    }

    private String describeAsMarkdown(Documentation documentation) {
        return "```java\n" + documentation.signature() + "\n```\n\n" + SourceDocs.markdown(javadoc(documentation));
    }

    /** Returns the Javadoc that JShell finds in the JDK's sources, or else that in this project's. */
    private String javadoc(Documentation documentation) {
        String ofJdk = documentation.javadoc();
        return ofJdk == null || ofJdk.isBlank() ? sources.of(documentation.signature()) : ofJdk;
    }

    /** Returns Javadoc as plain text, without tags. */
    private static String plain(String javadoc) {
        return SourceDocs.withPlainLinks(javadoc)
                .replaceAll("\\{@\\w+\\s+([^{}]*)}", "$1")
                .replaceAll("<p>|</p>", "\n")
                .replaceAll("<[^>]+>", "")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&nbsp;", " ")
                .replace("&amp;", "&")
                .replaceAll("\\n\\s*\\n(\\s*\\n)+", "\n\n")
                .stripTrailing();
    }

    /** Returns "complete", "invalid", or the indentation of the next line if the cell is incomplete. */
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
