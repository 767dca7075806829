import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What a team that knows the official Java client would write: a thread per queue that pulls 32 messages and
 * sends them as one batch to the queue with the same id at the target, with body, tags, keys, flag and user
 * properties. It knows neither progress files nor retries; it ends when --messages have been relayed.
 */
public final class Relay {
    private final DefaultMQPullConsumer consumer;
    private final DefaultMQProducer producer;
    private final String targetTopic;
    private final Map<Integer, MessageQueue> targets;
    private final AtomicLong left;

    private Relay(Options options) throws Exception {
        left = new AtomicLong(Long.parseLong(options.need("messages")));
        targetTopic = options.need("target-topic");
        String instance = "relay-" + ProcessHandle.current().pid();
        consumer = new DefaultMQPullConsumer("bench-relay");
        consumer.setNamesrvAddr(options.need("source"));
        // One instance name for both would make them share connections, and one of the two name servers.
        consumer.setInstanceName(instance + "-source");
        producer = new DefaultMQProducer("bench-relay");
        producer.setNamesrvAddr(options.need("target"));
        producer.setInstanceName(instance + "-target");
        producer.setVipChannelEnabled(true);
        producer.setSendMsgTimeout(30_000);
        consumer.start();
        producer.start();
        targets = new java.util.HashMap<>();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(targetTopic)) {
            targets.put(queue.getQueueId(), queue);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        Relay relay = new Relay(options);
        relay.run(relay.consumer.fetchSubscribeMessageQueues(options.need("source-topic")));
        System.exit(0);
    }

    private void run(Set<MessageQueue> queues) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (MessageQueue queue : queues) {
            Thread thread = new Thread(() -> {
                try {
                    relay(queue);
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        producer.shutdown();
        consumer.shutdown();
    }

    private void relay(MessageQueue queue) throws Exception {
        MessageQueue target = targets.get(queue.getQueueId());
        long offset = consumer.minOffset(queue);
        while (left.get() > 0) {
            PullResult pulled = consumer.pullBlockIfNotFound(queue, "*", offset, 32);
            if (pulled.getPullStatus() == PullStatus.FOUND) {
                List<Message> batch = new ArrayList<>(pulled.getMsgFoundList().size());
                for (MessageExt message : pulled.getMsgFoundList()) {
                    batch.add(copy(message));
                }
                producer.send(batch, target);
                if (left.addAndGet(-batch.size()) <= 0) {
                    // Other threads may wait 20 s in a pull of an empty queue.
                    producer.shutdown();
                    System.exit(0);
                }
            }
            offset = pulled.getNextBeginOffset();
        }
    }

    private Message copy(MessageExt message) {
        Message copy = new Message(
            targetTopic, message.getTags(), message.getKeys(), message.getFlag(), message.getBody(), true);
        message.getProperties().forEach((name, value) -> {
            if (!MessageConst.STRING_HASH_SET.contains(name)) {
                copy.putUserProperty(name, value);
            }
        });
        return copy;
    }
}
