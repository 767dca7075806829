import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** Command line options of the form --name value, and one-line JSON for the answers. */
final class Args {
    private final Map<String, String> values = new HashMap<>();

    Args(String[] arguments) {
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            if (!arguments[i].startsWith("--")) {
                throw new IllegalArgumentException("not an option: " + arguments[i]);
            }
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

    int number(String name, int otherwise) {
        return values.containsKey(name) ? Integer.parseInt(values.get(name)) : otherwise;
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(values.get(name));
    }

    /** The hook that signs requests, or null without an access key. */
    RPCHook credentials() {
        String accessKey = values.get("access-key");
        return accessKey == null
            ? null
            : new AclClientRPCHook(new SessionCredentials(accessKey, need("secret-key")));
    }

    /** Standard output for the answers alone: what the client's logging prints goes to standard error. */
    static PrintStream answers() {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        return out;
    }

    /** Builds one JSON object; numbers and booleans stay bare, maps become objects. */
    static String json(Object... namesAndValues) {
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            parts.add(quoted((String) namesAndValues[i]) + ":" + value(namesAndValues[i + 1]));
        }
        return "{" + String.join(",", parts) + "}";
    }

    private static String value(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((name, inner) -> parts.add(quoted(String.valueOf(name)) + ":" + value(inner)));
            return "{" + String.join(",", parts) + "}";
        }
        return quoted(value.toString());
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
