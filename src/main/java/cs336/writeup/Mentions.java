package cs336.writeup;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The figures and works of a writeup and the places that refer to them or to headings, tables and equations. */
final class Mentions {
    private static final Pattern ID = Pattern.compile(" id=\"([^\"]+)\"");

    private final List<Mention> figures = new ArrayList<>();
    private final List<Mention> works = new ArrayList<>();
    private final List<Mention> citations = new ArrayList<>();
    private final List<Mention> anchors = new ArrayList<>();
    private final Set<String> linked = new HashSet<>();

    /**
     * A place in a writeup.
     *
     * @param target a figure's address, a work's key, or an id after {@code #}
     */
    record Mention(Path file, int line, String target) {
        private String problem(String message) {
            return file + ":" + line + ": " + message;
        }
    }

    /** Adds a figure that the text must refer to. */
    void addFigure(Mention figure) {
        figures.add(figure);
    }

    /** Adds a work that the text must cite. */
    void addWork(Mention work) {
        works.add(work);
    }

    /** Adds a citation of a work. */
    void addCitation(Mention citation) {
        citations.add(citation);
    }

    /** Adds a link. */
    void addLink(Mention link) {
        linked.add(link.target);
        if (link.target.startsWith("#")) {
            anchors.add(link);
        }
    }

    /** Returns a problem for each figure and work that no text mentions, and each citation of an unknown work. */
    List<String> problems() {
        Set<String> known = works.stream().map(Mention::target).collect(Collectors.toSet());
        Set<String> cited = citations.stream().map(Mention::target).collect(Collectors.toSet());
        var problems = new ArrayList<String>();
        figures.stream()
                .filter(figure -> !linked.contains(figure.target))
                .map(figure -> figure.problem("no text refers to the figure: add [Figure](" + figure.target + ")"))
                .forEach(problems::add);
        works.stream()
                .filter(work -> !cited.contains(work.target))
                .map(work -> work.problem("no text cites the work: add [@" + work.target + "] or remove it"))
                .forEach(problems::add);
        citations.stream()
                .filter(citation -> !known.contains(citation.target))
                .map(citation -> citation.problem("[@" + citation.target + "] is not in " + ChapterFile.REFERENCES))
                .forEach(problems::add);
        return problems;
    }

    /** Returns a problem for each link to an id that the page does not contain. */
    List<String> deadLinks(String html) {
        Set<String> ids =
                ID.matcher(html).results().map(match -> "#" + match.group(1)).collect(Collectors.toSet());
        return anchors.stream()
                .filter(anchor -> !ids.contains(anchor.target))
                .map(anchor -> anchor.problem("link to " + anchor.target + " leads to no heading, table or equation"))
                .toList();
    }
}
