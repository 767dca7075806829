import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends what standard input says, one message a line, and answers each line with one line of JSON.
 *
 * <p>A line is tab-separated name=value fields, values URL-encoded: topic, body (hex), keys, tags, flag,
 * prop.NAME, and of kind (plain, batch, commit, rollback, undecided): broker and queue to choose the queue, shard to
 * have it chosen by a selector, level, delay-s or deliver-ms to delay it. Lines of kind batch are kept until
 * another kind, or a line of kind flush, comes; they go out together to the queue of the first of them.
 */
public final class Produce {
    private static final PrintStream OUT = Args.answers();

    private final DefaultMQProducer producer;
    private final List<Message> batch = new ArrayList<>();
    private Map<String, String> batchFields = Map.of();

    private Produce(DefaultMQProducer producer) {
        this.producer = producer;
    }

    public static void main(String[] arguments) throws Exception {
        Args args = new Args(arguments);
        TransactionMQProducer producer = new TransactionMQProducer(args.get("group", "java-produce"), args.credentials());
        producer.setNamesrvAddr(args.need("namesrv"));
        producer.setVipChannelEnabled(args.flag("vip"));
        producer.setInstanceName("produce-" + ProcessHandle.current().pid());
        producer.setSendMsgTimeout(args.number("timeout-ms", 10_000));
        producer.setTransactionListener(new Decided());
        String compress = args.get("compress", "");
        if (compress.isEmpty()) {
            producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        } else {
            producer.setCompressType(CompressionType.of(compress.toUpperCase()));
            producer.setCompressMsgBodyOverHowmuch(args.number("compress-over", 64));
        }
        producer.start();
        boolean failed = false;
        try {
            Produce produce = new Produce(producer);
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                produce.order(fields(line));
            }
            produce.flush();
        } catch (Exception error) {
            error.printStackTrace();
            failed = true;
        } finally {
            producer.shutdown();
        }
        // Client threads that linger must not keep the process.
        System.exit(failed ? 1 : 0);
    }

    private void order(Map<String, String> fields) throws Exception {
        String kind = fields.getOrDefault("kind", "plain");
        if (kind.equals("batch")) {
            if (batch.isEmpty()) {
                batchFields = fields;
            }
            batch.add(message(fields));
            return;
        }
        flush();
        if (kind.equals("commit") || kind.equals("rollback") || kind.equals("undecided")) {
            TransactionSendResult result = producer.sendMessageInTransaction(message(fields), kind);
            answer(result, result.getLocalTransactionState().name());
        } else if (kind.equals("plain")) {
            plain(fields);
        } else if (!kind.equals("flush")) {
            throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    private void plain(Map<String, String> fields) throws Exception {
        Message message = message(fields);
        MessageQueue queue = queue(fields);
        if (queue != null) {
            answer(producer.send(message, queue), "");
        } else if (fields.containsKey("shard")) {
            int shard = Integer.parseInt(fields.get("shard"));
            answer(producer.send(message, (queues, m, key) -> queues.get((int) key % queues.size()), shard), "");
        } else {
            answer(producer.send(message), "");
        }
    }

    private void flush() throws Exception {
        if (batch.isEmpty()) {
            return;
        }
        MessageQueue queue = queue(batchFields);
        answer(queue == null ? producer.send(batch) : producer.send(batch, queue), "");
        batch.clear();
    }

    private static void answer(SendResult result, String state) {
        OUT.println(Args.json(
            "status", result.getSendStatus().name(),
            "broker", result.getMessageQueue().getBrokerName(),
            "queue", result.getMessageQueue().getQueueId(),
            "offset", result.getQueueOffset(),
            "msgId", result.getMsgId(),
            "state", state));
        OUT.flush();
    }

    private static MessageQueue queue(Map<String, String> fields) {
        return fields.containsKey("broker")
            ? new MessageQueue(fields.get("topic"), fields.get("broker"), Integer.parseInt(fields.get("queue")))
            : null;
    }

    private static Message message(Map<String, String> fields) {
        Message message = new Message(
            fields.get("topic"),
            fields.getOrDefault("tags", ""),
            fields.getOrDefault("keys", ""),
            Integer.parseInt(fields.getOrDefault("flag", "0")),
            HexFormat.of().parseHex(fields.getOrDefault("body", "")),
            true);
        fields.forEach((name, value) -> {
            if (name.startsWith("prop.")) {
                message.putUserProperty(name.substring(5), value);
            }
        });
        if (fields.containsKey("level")) {
            message.setDelayTimeLevel(Integer.parseInt(fields.get("level")));
        }
        if (fields.containsKey("delay-s")) {
            message.setDelayTimeSec(Long.parseLong(fields.get("delay-s")));
        }
        if (fields.containsKey("deliver-ms")) {
            message.setDeliverTimeMs(Long.parseLong(fields.get("deliver-ms")));
        }
        return message;
    }

    private static Map<String, String> fields(String line) {
        Map<String, String> fields = new HashMap<>();
        for (String part : line.split("\t")) {
            int cut = part.indexOf('=');
            if (cut > 0) {
                fields.put(part.substring(0, cut), URLDecoder.decode(part.substring(cut + 1), StandardCharsets.UTF_8));
            }
        }
        return fields;
    }

    /** Decides transactions as the order said. */
    private static final class Decided implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object kind) {
            return switch ((String) kind) {
                case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
                case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
        }
    }
}
