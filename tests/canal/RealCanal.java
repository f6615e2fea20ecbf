import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import com.alibaba.otter.canal.common.MQMessageUtils;
import com.alibaba.otter.canal.instance.manager.CanalInstanceWithManager;
import com.alibaba.otter.canal.instance.manager.model.Canal;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter;
import com.alibaba.otter.canal.protocol.ClientIdentity;
import com.alibaba.otter.canal.protocol.FlatMessage;
import com.alibaba.otter.canal.protocol.Message;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/** Prints what Canal would send to Kafka (flatMessage) from a place on, until a table has changed. */
public class RealCanal {
  public static void main(String[] words) throws Exception {
    String port = words[0], user = words[1], file = words[2], at = words[3], tables = words[4];
    String last = words[5];
    CanalParameter parameter = new CanalParameter();
    parameter.setSourcingType(CanalParameter.SourcingType.MYSQL);
    parameter.setMetaMode(CanalParameter.MetaMode.MEMORY);
    parameter.setIndexMode(CanalParameter.IndexMode.MEMORY);
    parameter.setStorageMode(CanalParameter.StorageMode.MEMORY);
    parameter.setHaMode(CanalParameter.HAMode.HEARTBEAT);
    parameter.setMemoryStorageBufferSize(1024);
    parameter.setDbAddresses(
        Arrays.asList(new InetSocketAddress("127.0.0.1", Integer.parseInt(port))));
    parameter.setDbUsername(user);
    parameter.setDbPassword(user);
    parameter.setPositions(
        Arrays.asList("{\"journalName\":\"" + file + "\",\"position\":" + at + "}"));
    parameter.setSlaveId(7332L);
    parameter.setDefaultConnectionTimeoutInSeconds(30);
    parameter.setConnectionCharset("UTF-8");
    parameter.setDetectingEnable(false);
    parameter.setTsdbEnable(false);
    Canal canal = new Canal();
    canal.setId(1L);
    canal.setName("d");
    canal.setCanalParameter(parameter);
    CanalServerWithEmbedded server = CanalServerWithEmbedded.instance();
    server.setCanalInstanceGenerator(name -> new CanalInstanceWithManager(canal, tables));
    server.start();
    server.start("d");
    ClientIdentity identity = new ClientIdentity("d", (short) 1001, tables);
    server.subscribe(identity);
    while (true) {
      Message message = server.getWithoutAck(identity, 100, 1000L, TimeUnit.MILLISECONDS);
      if (message.getId() == -1) continue;
      for (FlatMessage flat : MQMessageUtils.messageConverter(message)) {
        if (flat.getTable().equals(last)) System.exit(0);
        System.out.println(JSON.toJSONString(flat, SerializerFeature.WriteMapNullValue));
      }
      server.ack(identity, message.getId());
    }
  }
}
