import java.io.Closeable;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * The official gRPC client. Arguments: endpoints, a mode, its options as name=value.
 *
 * <p>produce: topic, type (normal, fifo, delay, transaction, priority, lite), count, from (number of the first), groups
 * (FIFO), levels (priorities, of which message i has i modulo that), lite (lite topics, separated by commas, in turn),
 * delay-ms. simple: topic, group, count (to receive; 0: until idle), hold (bodies that are not acknowledged, separated by
 * commas, or all), invisible-s, idle-s. push: topic, group, count, idle-s, hold. lite: as push, and lite (topics).
 * Prints one line of JSON a message.
 */
public final class Grpc {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    /** Nanoseconds that the first message may take beyond the idle time: assignments take some. */
    private static final long FIRST = 20_000_000_000L;

    private final ClientConfiguration client;
    private final Map<String, String> options = new java.util.HashMap<>();

    private Grpc(String[] arguments) {
        client = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(10)).build();
        for (String each : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            int at = each.indexOf('=');
            options.put(each.substring(0, at), each.substring(at + 1));
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        Grpc grpc = new Grpc(arguments);
        int code = 0;
        try {
            switch (arguments[1]) {
                case "produce" -> grpc.produce();
                case "simple" -> grpc.simple();
                case "push" -> grpc.push();
                case "lite" -> grpc.lite();
                default -> throw new IllegalArgumentException(arguments[1]);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        OUT.flush();
        // Client threads that linger must not keep the process.
        Runtime.getRuntime().halt(code);
    }

    private String text(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    private int number(String name, int otherwise) {
        return Integer.parseInt(text(name, Integer.toString(otherwise)));
    }

    private void produce() throws Exception {
        String topic = text("topic", "");
        String type = text("type", "normal");
        var builder = PROVIDER.newProducerBuilder().setClientConfiguration(client).setTopics(topic);
        if (type.equals("transaction")) {
            builder.setTransactionChecker(message -> TransactionResolution.COMMIT);
        }
        Producer producer = builder.build();
        int first = number("from", 0);
        for (int i = first; i < first + number("count", 1); i++) {
            MessageBuilder message = PROVIDER.newMessageBuilder().setTopic(topic).setKeys("k" + i).setTag("t")
                .setBody(Integer.toString(i).getBytes(StandardCharsets.UTF_8));
            if (type.equals("fifo")) {
                message.setMessageGroup("g" + i % number("groups", 4));
            }
            if (type.equals("delay")) {
                message.setDeliveryTimestamp(System.currentTimeMillis() + number("delay-ms", 1000));
            }
            if (type.equals("priority")) {
                message.setPriority(i % number("levels", 3));
            }
            if (type.equals("lite")) {
                String[] lites = text("lite", "").split(",");
                message.setLiteTopic(lites[i % lites.length]);
            }
            Message built = message.build();
            if (type.equals("transaction")) {
                Transaction transaction = producer.beginTransaction();
                producer.send(built, transaction);
                if (i % 5 == 4) {
                    transaction.rollback();
                } else {
                    transaction.commit();
                }
            } else {
                producer.send(built);
            }
        }
        producer.close();
    }

    private boolean held(String body) {
        String hold = text("hold", "");
        return hold.equals("all") || Arrays.asList(hold.split(",")).contains(body);
    }

    private static String body(MessageView message) {
        ByteBuffer buffer = message.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static void print(MessageView message, boolean acknowledged) {
        OUT.println("{\"body\":\"" + body(message) + "\",\"topic\":\"" + message.getTopic() + "\",\"attempt\":"
            + message.getDeliveryAttempt() + ",\"group\":\"" + message.getMessageGroup().orElse("")
            + "\",\"acknowledged\":" + acknowledged + "}");
    }

    private void simple() throws Exception {
        int count = number("count", 0);
        long idle = number("idle-s", 4) * 1_000_000_000L;
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(client)
            .setConsumerGroup(text("group", "")).setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(Map.of(text("topic", ""), FilterExpression.SUB_ALL)).build();
        long latest = System.nanoTime() + FIRST;
        int received = 0;
        while ((count == 0 || received < count) && System.nanoTime() - latest < idle) {
            int most = count == 0 ? 16 : Math.min(16, count - received);
            List<MessageView> got = consumer.receive(most, Duration.ofSeconds(number("invisible-s", 60)));
            for (MessageView message : got) {
                boolean keep = held(body(message));
                if (!keep) {
                    consumer.ack(message);
                }
                print(message, !keep);
                latest = System.nanoTime();
            }
            received += got.size();
        }
        // Not closed where messages are held: the client would give them back.
        if (text("hold", "").isEmpty()) {
            consumer.close();
        }
    }

    private void push() throws Exception {
        Listening listening = new Listening();
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(client)
            .setConsumerGroup(text("group", "")).setConsumptionThreadCount(8)
            .setSubscriptionExpressions(Map.of(text("topic", ""), FilterExpression.SUB_ALL))
            .setMessageListener(listening.listener()).build();
        listening.toTheEnd(consumer);
    }

    private void lite() throws Exception {
        Listening listening = new Listening();
        LitePushConsumer consumer = PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(client)
            .bindTopic(text("topic", "")).setConsumerGroup(text("group", "")).setConsumptionThreadCount(8)
            .setMessageListener(listening.listener()).build();
        for (String each : text("lite", "").split(",")) {
            consumer.subscribeLite(each);
        }
        listening.toTheEnd(consumer);
    }

    /** What is pushed: printed, and acknowledged but for what is held, until there is enough, or nothing more comes. */
    private final class Listening {
        private final int count = number("count", 0) == 0 ? Integer.MAX_VALUE : number("count", 0);
        private final AtomicLong latest = new AtomicLong(System.nanoTime() + FIRST);
        private final ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();

        private MessageListener listener() {
            return message -> {
                String body = body(message);
                synchronized (seen) {
                    boolean more = seen.size() >= count;
                    boolean keep = more || held(body);
                    if (!more) {
                        print(message, !keep);
                        latest.set(System.nanoTime());
                    }
                    if (keep) {
                        try {
                            seen.wait();  // until the process ends
                        } catch (InterruptedException error) {
                            return ConsumeResult.FAILURE;
                        }
                    }
                    seen.add(body);
                    return ConsumeResult.SUCCESS;
                }
            };
        }

        private void toTheEnd(Closeable consumer) throws Exception {
            long idle = number("idle-s", 4) * 1_000_000_000L;
            while (seen.size() < count && System.nanoTime() - latest.get() < idle) {
                Thread.sleep(50);
            }
            Thread.sleep(500);  // acknowledgements are sent a moment later
            if (text("hold", "").isEmpty()) {
                consumer.close();
            }
        }
    }
}
