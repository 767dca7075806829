import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Prints messages, one line of JSON each.
 *
 * <p>--mode pull reads every queue of --topic from its first to its last message. --mode push joins --group
 * and ends after --count messages or --idle-s seconds without any; consumed offsets are committed.
 */
public final class Consume {
    private final BufferedWriter out =
        new BufferedWriter(new OutputStreamWriter(Args.answers(), StandardCharsets.UTF_8), 1 << 16);
    private final boolean digest;

    private Consume(Args args) {
        digest = args.get("body", "hex").equals("sha256");
    }

    public static void main(String[] arguments) throws Exception {
        Args args = new Args(arguments);
        Consume consume = new Consume(args);
        boolean failed = false;
        try {
            if (args.get("mode", "pull").equals("push")) {
                consume.push(args);
            } else {
                consume.pull(args);
            }
            consume.out.flush();
        } catch (Exception error) {
            error.printStackTrace();
            failed = true;
        }
        // Client threads that linger must not keep the process.
        System.exit(failed ? 1 : 0);
    }

    private static MessageSelector selector(Args args) {
        String sql = args.get("sql", "");
        return sql.isEmpty() ? MessageSelector.byTag(args.get("tags", "*")) : MessageSelector.bySql(sql);
    }

    private void pull(Args args) throws Exception {
        String topic = args.need("topic");
        DefaultMQPullConsumer consumer =
            new DefaultMQPullConsumer(args.get("group", "java-read"), args.credentials());
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setVipChannelEnabled(false);
        consumer.setInstanceName("read-" + ProcessHandle.current().pid());
        consumer.start();
        try {
            Set<MessageQueue> queues = new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic));
            // Brokers tell their version in answer to heartbeats; without it SQL is refused by the client itself.
            MQClientInstance client =
                consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
            client.updateTopicRouteInfoFromNameServer(topic);
            client.sendHeartbeatToAllBrokerWithLock();
            for (MessageQueue queue : queues) {
                readQueue(consumer, queue, selector(args));
            }
        } finally {
            consumer.shutdown();
        }
    }

    private void readQueue(DefaultMQPullConsumer consumer, MessageQueue queue, MessageSelector selector)
        throws Exception {
        long offset = consumer.minOffset(queue);
        while (true) {
            PullResult result = consumer.pull(queue, selector, offset, 32);
            switch (result.getPullStatus()) {
                case FOUND -> result.getMsgFoundList().forEach(message -> print(message, queue));
                case NO_MATCHED_MSG -> { }
                // The largest offset lags behind the log: only a pull that finds nothing tells the end.
                case NO_NEW_MSG -> {
                    return;
                }
                case OFFSET_ILLEGAL -> {
                    if (result.getMinOffset() >= result.getMaxOffset()) {
                        return;
                    }
                }
            }
            if (result.getNextBeginOffset() == offset) {
                return;
            }
            offset = result.getNextBeginOffset();
        }
    }

    private void push(Args args) throws Exception {
        int count = args.number("count", Integer.MAX_VALUE);
        long idle = args.number("idle-s", 10) * 1_000_000_000L;
        AtomicInteger seen = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        AtomicLong latest = new AtomicLong(System.nanoTime());
        Map<MessageQueue, Long> consumed = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.need("group"), args.credentials());
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setVipChannelEnabled(args.flag("vip"));
        consumer.setInstanceName("consume-" + ProcessHandle.current().pid());
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(args.get("from", "CONSUME_FROM_FIRST_OFFSET")));
        consumer.setConsumeMessageBatchMaxSize(1);
        if (args.flag("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        consumer.subscribe(args.need("topic"), selector(args));
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            // Exactly `count` are consumed: what comes later waits for the next member of the group.
            if (seen.incrementAndGet() > count) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            messages.forEach(message -> {
                print(message, context.getMessageQueue());
                consumed.put(context.getMessageQueue(), message.getQueueOffset() + 1);
            });
            done.incrementAndGet();
            latest.set(System.nanoTime());
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        try {
            while (done.get() < count && System.nanoTime() - latest.get() < idle) {
                Thread.sleep(50);
            }
            // What was printed is committed a moment later, when the listener has returned.
            OffsetStore offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
            for (int i = 0; i < 200 && !args.flag("broadcast") && consumed.entrySet().stream().anyMatch(
                each -> offsets.readOffset(each.getKey(), ReadOffsetType.READ_FROM_MEMORY) < each.getValue()); i++) {
                Thread.sleep(50);
            }
            // A shutdown commits one-way and closes the connections at once: what is on its way then may be lost.
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            Thread.sleep(200);
        } finally {
            consumer.shutdown();
        }
    }

    private synchronized void print(MessageExt message, MessageQueue queue) {
        try {
            out.write(Args.json(
                "topic", message.getTopic(),
                "broker", queue.getBrokerName(),
                "queue", message.getQueueId(),
                "offset", message.getQueueOffset(),
                "msgId", message.getMsgId(),
                "flag", message.getFlag(),
                "sysFlag", message.getSysFlag(),
                "bornTimestamp", message.getBornTimestamp(),
                "storeTimestamp", message.getStoreTimestamp(),
                "reconsumeTimes", message.getReconsumeTimes(),
                "properties", message.getProperties(),
                "body", HexFormat.of().formatHex(body(message.getBody()))));
            out.newLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private byte[] body(byte[] body) {
        if (!digest) {
            return body;
        }
        try {
            return MessageDigest.getInstance("SHA-256").digest(body);
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
