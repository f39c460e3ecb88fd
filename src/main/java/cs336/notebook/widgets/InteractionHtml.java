package cs336.notebook.widgets;

import com.google.gson.Gson;
import cs336.charts.Svg;
import cs336.charts.TextResource;
import io.github.spencerpark.jupyter.kernel.display.Renderer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * An {@link Interaction} as HTML: controls that switch between the precomputed results without a kernel.
 *
 * <p>Results other than the first are data of a script, so that pages without scripts show the first alone.
 */
final class InteractionHtml {
    /** The number of characters of all results. */
    private static final int MOST_CHARACTERS = 4 << 20;

    private static final Gson GSON = new Gson();
    private static final String SCRIPT = TextResource.read(InteractionHtml.class, "interact.js");

    private InteractionHtml() {}

    /**
     * The results of all combinations.
     *
     * @param results different results
     * @param of the position in {@code results} of each combination's result
     */
    private record Results(List<String> results, List<Integer> of) {}

    static String of(Interaction interaction, Renderer renderer) {
        Results results = interaction.isComplete() ? results(interaction, renderer) : null;
        var html = new StringBuilder("<div class=\"cs336-interact\">\n");
        if (results == null) {
            html.append("<p>").append(Svg.escape(interaction.values()));
            html.append(" (the controls work in JupyterLab with this project's kernel)</p>\n");
        } else {
            // The script enables the controls.
            html.append("<fieldset disabled style=\"border: 0; margin: 0; padding: 0\">\n");
            for (int i = 0; i < interaction.controls().size(); i++) {
                int selected = interaction.first().get(i);
                html.append(interaction.controls().get(i).labelled(selected)).append('\n');
            }
            html.append("</fieldset>\n");
        }
        html.append("<div class=\"cs336-interact-result\" aria-live=\"polite\">\n");
        html.append(interaction.computed(interaction.first()).html(renderer)).append("</div>\n");
        if (results != null) {
            // Gson escapes "<", so that no result ends the script.
            html.append("<script type=\"application/json\">").append(GSON.toJson(results));
            html.append("</script>\n<script>\n").append(SCRIPT).append("</script>\n");
        }
        return html.append("</div>\n").toString();
    }

    /** Returns the results of all combinations; null if they are too large. */
    private static Results results(Interaction interaction, Renderer renderer) {
        Map<String, Integer> positions = new LinkedHashMap<>();
        List<Integer> of = new ArrayList<>();
        int characters = 0;
        for (List<Integer> combination : interaction.allCombinations()) {
            String result = interaction.computed(combination).html(renderer);
            if (positions.putIfAbsent(result, positions.size()) == null) {
                characters += result.length();
            }
            if (characters > MOST_CHARACTERS) {
                return null;
            }
            of.add(positions.get(result));
        }
        return new Results(List.copyOf(positions.keySet()), of);
    }
}
