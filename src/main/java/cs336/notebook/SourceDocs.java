package cs336.notebook;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The Javadoc of this project's types and methods, read from their sources. JShell itself only finds sources of the
 * JDK.
 */
final class SourceDocs {
    private static final Pattern METHOD = Pattern.compile("(?:^|[\\s.])([A-Z]\\w*)(?:<[^(]*>)?\\.(\\w+)\\((.*?)\\)");
    private static final Pattern CONSTRUCTOR = Pattern.compile("(?:^|[\\s.>])([A-Z]\\w*)(?:<[^(]*>)?\\((.*?)\\)");
    private static final Pattern TYPE = Pattern.compile("(?:^|[\\s.])([A-Z]\\w*)");
    private static final String KINDS = "\\b(?:class|interface|enum|record)\\s+";

    private final Path sources;
    private Map<String, Path> files;

    /** @param sources the root folder of the sources; it need not exist */
    SourceDocs(Path sources) {
        this.sources = sources;
    }

    /**
     * Returns the Javadoc of a type, method or constructor as written, without stars; empty if there is none.
     *
     * @param signature a signature in JShell's format, such as {@code long NnModule.parameterCount()}
     */
    String of(String signature) {
        Matcher method = METHOD.matcher(signature);
        Matcher constructor = CONSTRUCTOR.matcher(signature);
        Matcher type = TYPE.matcher(signature);
        try {
            if (method.find()) {
                return member(method.group(1), method.group(2), parameters(method.group(3)));
            }
            if (constructor.find()) {
                return member(constructor.group(1), constructor.group(1), parameters(constructor.group(2)));
            }
            return type.find() ? type(type.group(1)) : "";
        } catch (IOException e) {
            return "";
        }
    }

    /** Returns the number of parameters of a list such as {@code Map<K, V> values, int n}. */
    private static int parameters(String list) {
        String flat = list;
        for (String before = ""; !before.equals(flat); ) {
            before = flat;
            flat = flat.replaceAll("<[^<>]*>", "");
        }
        return flat.isBlank() ? 0 : flat.split(",").length;
    }

    private String type(String name) throws IOException {
        return find(name, Pattern.compile(KINDS + name + "\\b"), -1);
    }

    private String member(String type, String name, int parameters) throws IOException {
        Pattern declaration = Pattern.compile("(?:^|[\\s>])" + name + "\\s*\\(");
        String exact = find(type, declaration, parameters);
        return exact.isEmpty() ? find(type, declaration, -1) : exact;
    }

    /** Returns the first comment of a type's file that precedes such a declaration. */
    private String find(String type, Pattern declaration, int parameters) throws IOException {
        Path file = files().get(type);
        if (file == null) {
            return "";
        }
        String source = Files.readString(file);
        for (int at = source.indexOf("/**"); at >= 0; at = source.indexOf("/**", at + 1)) {
            int end = source.indexOf("*/", at);
            String declared = source.substring(end + 2).replaceFirst("(?s)[;{].*", "");
            Matcher matcher = declaration.matcher(declared);
            boolean annotated = declared.contains("/*");
            if (!annotated && matcher.find() && hasParameters(declared.substring(matcher.end()), parameters)) {
                return source.substring(at + 3, end)
                        .replaceAll("(?m)^\\s*\\* ?", "")
                        .strip();
            }
        }
        return "";
    }

    private static boolean hasParameters(String rest, int parameters) {
        return parameters < 0 || parameters(rest.replaceFirst("(?s)\\)[^)]*$", "")) == parameters;
    }

    private synchronized Map<String, Path> files() throws IOException {
        if (files == null) {
            files = new HashMap<>();
            if (Files.isDirectory(sources)) {
                try (Stream<Path> all = Files.walk(sources)) {
                    all.filter(file -> file.toString().endsWith(".java"))
                            .forEach(file ->
                                    files.put(file.getFileName().toString().replace(".java", ""), file));
                }
            }
        }
        return files;
    }

    /** Returns Javadoc whose links name members as code does: {@code step} and {@code Optimizer.step}, without #. */
    static String withPlainLinks(String javadoc) {
        return javadoc.replaceAll("\\{@link(?:plain)?\\s+#", "{@link ")
                .replaceAll("(\\{@link(?:plain)?\\s+[\\w.]+)#", "$1.");
    }

    /** Returns Javadoc as Markdown. */
    static String markdown(String javadoc) {
        return withPlainLinks(javadoc)
                .replaceAll("(?s)<pre>\\{@code\\s*\\n?(.*?)}\\s*</pre>", "\n```java\n$1```\n")
                .replaceAll("\\{@\\w+\\s+([^{}]*)}", "`$1`")
                .replaceAll("<p>|</p>", "\n")
                .replaceAll("</?(?:ul|ol)>", "")
                .replaceAll("<li>", "- ")
                .replaceAll("</li>", "")
                .replaceAll("</?(?:em|i|b|strong)>", "*")
                .replaceAll("(?m)^@param\\s+(\\S+)", "- **$1**")
                .replaceAll("(?m)^@returns?\\b", "- **returns**")
                .replaceAll("(?m)^@throws\\s+(\\S+)", "- **throws** `$1`")
                .replaceAll("(?m)^(?=- \\*\\*)", "\n")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&")
                .replaceAll("\\n{3,}", "\n\n")
                .strip();
    }
}
