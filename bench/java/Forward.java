import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What many teams run: a push consumer of the official Java client whose listener sends what it gets to the queue
 * with the same id at the target, up to 32 messages of a queue as one batch. It runs until it is ended. Its threads
 * may send two batches of one queue at a time, so it does not keep the order.
 */
public final class Forward {
    private Forward() {
    }

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        String topic = options.need("source-topic");
        String targetTopic = options.need("target-topic");
        String instance = "forward-" + ProcessHandle.current().pid();
        DefaultMQProducer producer = new DefaultMQProducer("bench-forward");
        producer.setNamesrvAddr(options.need("target"));
        producer.setInstanceName(instance + "-target");
        producer.setVipChannelEnabled(true);
        producer.start();
        Map<Integer, MessageQueue> targets = new HashMap<>();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(targetTopic)) {
            targets.put(queue.getQueueId(), queue);
        }
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-forward-" + targetTopic);
        consumer.setNamesrvAddr(options.need("source"));
        consumer.setInstanceName(instance + "-source");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            List<Message> batch = new ArrayList<>(messages.size());
            for (MessageExt message : messages) {
                batch.add(copy(message, targetTopic));
            }
            try {
                producer.send(batch, targets.get(context.getMessageQueue().getQueueId()));
            } catch (Exception error) {
                error.printStackTrace();
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        new CountDownLatch(1).await();
    }

    private static Message copy(MessageExt message, String topic) {
        Message copy =
            new Message(topic, message.getTags(), message.getKeys(), message.getFlag(), message.getBody(), true);
        message.getProperties().forEach((name, value) -> {
            if (!MessageConst.STRING_HASH_SET.contains(name)) {
                copy.putUserProperty(name, value);
            }
        });
        return copy;
    }
}
