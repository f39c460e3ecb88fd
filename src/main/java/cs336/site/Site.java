package cs336.site;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import cs336.bench.WholeFile;
import cs336.charts.TextResource;
import cs336.writeup.MarkdownException;
import cs336.writeup.MarkdownHtml;
import cs336.writeup.Page;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A website in a folder, which needs no server: pages of notebooks with links to the previous and the next one, a table
 * of contents, an index with thumbnails, and a search. Links to files of the project lead to copies of them, and
 * Markdown files become pages.
 */
public final class Site {
    private static final String STYLE = TextResource.read(Site.class, "site.css");
    private static final String SEARCH = TextResource.read(Site.class, "search.js");
    private static final Pattern LINK =
            Pattern.compile("<a\\b([^>]*)\\bhref=\"([^\"]*)\"([^>]*)>(.*?)</a>", Pattern.DOTALL);
    private static final Pattern ID = Pattern.compile("\\bid=[\"']([^\"']*)[\"']");
    private static final Pattern TITLE = Pattern.compile("(?m)^#\\s+(.+)$");
    private static final String EXTERNAL = "[a-zA-Z][a-zA-Z0-9+.-]*:.*|//.*";
    private static final String FILES = "files";
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();

    private final Path root;
    private final Path output;
    private final Map<String, SitePage> pages = new TreeMap<>();
    private final Map<String, String> written = new LinkedHashMap<>();
    private final Deque<Path> wanted = new ArrayDeque<>();
    private final Set<Path> found = new LinkedHashSet<>();

    private Site(Path root, Path output) {
        this.root = root.toAbsolutePath().normalize();
        this.output = output.toAbsolutePath().normalize();
    }

    /**
     * Builds the site.
     *
     * @param root the root folder of the project; linked files in it are copied
     * @param notebooks the folder with the pages of executed notebooks
     * @param writeup the folder with {@code writeup.html} and {@code writeup.pdf}; a missing file is left out
     * @param output the folder of the site; files in it are replaced, each when the new one is complete
     * @return a line for each link of a page of this site that leads nowhere
     * @throws IOException if a file cannot be read or written, is not UTF-8, or is Markdown that cannot be shown
     */
    public static List<String> build(Path root, Path notebooks, Path writeup, Path output) throws IOException {
        return new Site(root, output).build(notebooks, writeup);
    }

    private List<String> build(Path notebooks, Path writeup) throws IOException {
        Files.createDirectories(output.resolve("thumbnails"));
        Files.createDirectories(output.resolve(FILES));
        try (Stream<Path> files = Files.list(notebooks)) {
            for (Path file : files.filter(f -> f.toString().endsWith(".html")).toList()) {
                read(file);
            }
        }
        List<SitePage> lessons = List.copyOf(pages.values());
        for (int i = 0; i < lessons.size(); i++) {
            SitePage next = i + 1 < lessons.size() ? lessons.get(i + 1) : null;
            write(lessons.get(i), i > 0 ? lessons.get(i - 1) : null, next, root.resolve("notebooks"), "");
        }
        SitePage text = null;
        if (Files.exists(writeup.resolve("writeup.html"))) {
            text = read(writeup.resolve("writeup.html"));
            write(text, null, null, root.resolve("writeup"), "");
            if (Files.exists(writeup.resolve("writeup.pdf"))) {
                write("writeup.pdf", Files.readAllBytes(writeup.resolve("writeup.pdf")));
            }
        }
        boolean hasGlossary = Files.isRegularFile(root.resolve("writeup/glossary.md"));
        if (hasGlossary) {
            link(root.resolve("writeup"), "glossary.md", "");
        }
        writeFiles();
        writeSearch();
        save("index.html", index(lessons, text, hasGlossary));
        return deadLinks();
    }

    private SitePage read(Path file) throws IOException {
        var page = new SitePage(file.getFileName().toString(), WholeFile.read(file));
        pages.put(page.name(), page);
        return page;
    }

    private void write(SitePage page, SitePage previous, SitePage next, Path folder, String toRoot) throws IOException {
        var around = new StringBuilder("<nav class=\"site\" aria-label=\"notebooks\">");
        around.append("<a href=\"" + toRoot + "index.html\">All notebooks</a>");
        around.append(
                previous == null
                        ? ""
                        : "<a rel=\"prev\" href=\"" + previous.name() + "\">← " + previous.title() + "</a>");
        around.append(next == null ? "" : "<a rel=\"next\" href=\"" + next.name() + "\">" + next.title() + " →</a>");
        around.append("</nav>\n");
        var contents = new StringBuilder();
        page.sections().stream()
                .skip(1)
                .forEach(section ->
                        contents.append("<li><a href=\"#" + section.id() + "\">" + section.heading() + "</a></li>\n"));
        boolean hasOwn = page.html().contains("<nav class=\"contents\">") || contents.isEmpty();
        String toc = hasOwn
                ? ""
                : "<details class=\"site-contents\"><summary>On this page</summary><ul>\n" + contents
                        + "</ul></details>\n";
        String linked = LINK.matcher(page.html())
                .replaceAll(link -> Matcher.quoteReplacement("<a" + link.group(1) + "href=\""
                        + link(folder, link.group(2), toRoot) + "\"" + link.group(3) + ">" + link.group(4) + "</a>"));
        save(
                page.name(),
                linked.replaceFirst("</head>", Matcher.quoteReplacement("<style>\n" + STYLE + "</style>\n</head>"))
                        .replaceFirst(
                                "<body>\\s*<main>",
                                Matcher.quoteReplacement(
                                        "<body>\n<a class=\"skip\" href=\"#main\">Skip to the text</a>\n" + around
                                                + "<main id=\"main\">\n" + toc))
                        .replaceFirst(
                                "</main>\\s*</body>", Matcher.quoteReplacement("</main>\n" + around + "</body>")));
    }

    /** Returns the address of a link in the site, and requests a copy of the project's file that it refers to. */
    private String link(Path folder, String address, String toRoot) {
        if (address.isEmpty() || address.startsWith("#") || address.matches(EXTERNAL)) {
            return address;
        }
        int hash = address.indexOf('#');
        String path = hash < 0 ? address : address.substring(0, hash);
        String fragment = hash < 0 ? "" : address.substring(hash);
        Path file = resolved(folder, path);
        if (file == null) {
            return address;
        }
        String page = String.valueOf(file.getFileName()).replaceFirst("\\.ipynb$", ".html");
        boolean isSolution =
                path.endsWith(".ipynb") && !root.resolve("notebooks").equals(file.getParent());
        if (pages.containsKey(page) && !isSolution) {
            boolean isAnchor = path.endsWith(".ipynb") && !fragment.isEmpty();
            return toRoot + page + (isAnchor ? "#" + MarkdownHtml.headingId(fragment.substring(1)) : fragment);
        }
        if (!file.startsWith(root) || !Files.isRegularFile(file)) {
            return address;
        }
        if (found.add(file)) {
            wanted.add(file);
        }
        return toRoot + FILES + "/" + copy(file) + fragment;
    }

    /** Returns the file that an address means; null if no file can have this name. */
    private static Path resolved(Path folder, String address) {
        try {
            return folder.resolve(address).normalize();
        } catch (InvalidPathException e) {
            return null;
        }
    }

    /**
     * Returns the name of a file's copy: its path with hyphens, as a page if it is Markdown, or as text if its type is
     * not known.
     */
    private String copy(Path file) {
        String name = root.relativize(file).toString().replace('/', '-');
        if (name.endsWith(".md")) {
            return name.replaceFirst("\\.md$", ".html");
        }
        return name.matches(".*\\.(svg|png|pdf|html|json|csv|txt)") ? name : name + ".txt";
    }

    private void writeFiles() throws IOException {
        while (!wanted.isEmpty()) {
            Path file = wanted.poll();
            String name = FILES + "/" + copy(file);
            if (!file.toString().endsWith(".md")) {
                write(name, Files.readAllBytes(file));
                continue;
            }
            String markdown = WholeFile.read(file);
            Matcher title = TITLE.matcher(markdown);
            String html = Page.forScreen(
                    title.find() ? title.group(1) : root.relativize(file).toString(), fragment(file, markdown));
            write(new SitePage(name, html), null, null, file.getParent(), "../");
        }
    }

    private static String fragment(Path file, String markdown) throws IOException {
        try {
            return new MarkdownHtml(file.getParent()).fragment(markdown);
        } catch (MarkdownException e) {
            throw new IOException(file + ", line " + e.line() + ": " + e.getMessage(), e);
        }
    }

    private void writeSearch() throws IOException {
        List<String[]> entries = new ArrayList<>();
        for (SitePage page : pages.values()) {
            for (SitePage.Section section : page.sections()) {
                entries.add(
                        new String[] {page.title(), section.heading(), page.name() + "#" + section.id(), section.text()
                        });
            }
        }
        // A script and not JSON, because browsers load no data from a folder.
        WholeFile.write(output.resolve("search.js"), "const ENTRIES = " + JSON.toJson(entries) + ";\n" + SEARCH);
    }

    private String index(List<SitePage> lessons, SitePage text, boolean hasGlossary) throws IOException {
        var body = new StringBuilder("<h1>CS336: systems, in Java notebooks</h1>\n");
        body.append(
                        "<p>How the systems side of training language models works: measured, explained and rewritten, from")
                .append(" benchmarks to CUDA kernels, data parallelism and scaling laws.</p>\n");
        body.append("<p class=\"site-texts\">");
        body.append(text == null ? "" : "<a href=\"" + text.name() + "\">Writeup</a>");
        body.append(Files.exists(output.resolve("writeup.pdf")) ? "<a href=\"writeup.pdf\">Writeup as PDF</a>" : "");
        body.append(hasGlossary ? "<a href=\"" + FILES + "/writeup-glossary.html\">Glossary</a>" : "");
        body.append("</p>\n<form role=\"search\" class=\"site-search\"><label for=\"search\">Search</label>")
                .append("<input type=\"search\" id=\"search\" autocomplete=\"off\"></form>\n")
                .append("<ol id=\"results\" aria-live=\"polite\"></ol>\n<ul class=\"cards\">\n");
        for (SitePage lesson : lessons) {
            body.append("<li><a href=\"" + lesson.name() + "\">" + thumbnail(lesson) + "<strong>" + lesson.title()
                    + "</strong></a><p>" + lesson.summary() + "</p></li>\n");
        }
        body.append("</ul>\n<script src=\"search.js\"></script>\n");
        return Page.forScreen("CS336: systems, in Java notebooks", body.toString())
                .replace("</head>", "<style>\n" + STYLE + "</style>\n</head>");
    }

    /**
     * Writes the first figure of a page to a file, and returns the HTML image; empty if there is no figure or its URL
     * is malformed. The image has no alternative text, because the title is next to it.
     */
    private String thumbnail(SitePage page) throws IOException {
        String image = page.thumbnail();
        if (image.isEmpty()) {
            return "";
        }
        String type = image.startsWith("data:image/svg") ? ".svg" : ".png";
        String file = "thumbnails/" + page.name().replaceFirst("\\.html$", type);
        try {
            String content = image.substring(image.indexOf(',') + 1).replaceAll("\\s", "");
            write(file, Base64.getDecoder().decode(content));
        } catch (IllegalArgumentException e) {
            return "";
        }
        return "<img alt=\"\" loading=\"lazy\" src=\"" + file + "\">";
    }

    private void save(String name, String html) throws IOException {
        written.put(name, html);
        WholeFile.write(output.resolve(name), html);
    }

    private void write(String name, byte[] content) throws IOException {
        WholeFile.write(output.resolve(name), out -> out.write(content));
    }

    /** Returns a line for each link of a written page whose file or id does not exist. */
    private List<String> deadLinks() {
        List<String> dead = new ArrayList<>();
        written.forEach((name, html) -> LINK.matcher(html).results().forEach(link -> {
            String address = link.group(2);
            if (!address.matches(EXTERNAL) && isDead(name, address)) {
                dead.add(name + ": the link to " + address + " leads nowhere");
            }
        }));
        return dead;
    }

    private boolean isDead(String from, String address) {
        int hash = address.indexOf('#');
        String path = hash < 0 ? address : address.substring(0, hash);
        Path target = path.isEmpty()
                ? output.resolve(from)
                : resolved(output.resolve(from).getParent(), path);
        if (target == null || !Files.isRegularFile(target)) {
            return true;
        }
        String html = written.get(output.relativize(target).toString());
        String id = hash < 0 ? "" : address.substring(hash + 1);
        return html != null
                && !id.isEmpty()
                && ID.matcher(html).results().noneMatch(match -> match.group(1).equals(id));
    }
}
