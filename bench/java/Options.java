import java.util.HashMap;
import java.util.Map;

/** Command line options of the form --name value. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] arguments) {
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            values.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String need(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String get(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }
}
